#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "quern/lir/lir.h"

namespace quern::lir {

/// How arrays of a work-group lie in the memory that its lanes share: word n of an array, of 4
/// bytes, is in bank n % 32, as GPUs have them. 32 lanes get what they ask for at once in as many
/// steps as one bank is asked for words.
class Banks {
public:
    static constexpr std::uint32_t kBanks = 32, kTogether = 32, kWordBytes = 4;

    Banks(std::size_t lanes, std::size_t instructions)
        : times_(lanes, std::vector<std::uint32_t>(instructions, 0)) {}

    /// That a lane asks for a word of an array by some instruction. Lanes do so at once that have
    /// come to it as often since they last met.
    void note(std::size_t lane, ValueId access, std::uint64_t word) {
        const std::uint32_t time = times_[lane][std::uint32_t(access)]++;
        asked_[{access, time, lane / kTogether}][std::uint32_t(word % kBanks)].insert(word);
    }

    /// All lanes meet.
    void meet();

    /// The most steps for the lanes of one access.
    std::uint32_t most() const { return most_; }

private:
    struct Access {
        ValueId id;
        std::uint32_t time;
        std::size_t lanes;

        auto operator<=>(const Access&) const = default;
    };

    /// How often each lane has come to each instruction.
    std::vector<std::vector<std::uint32_t>> times_;

    /// The words of each bank.
    std::map<Access, std::map<std::uint32_t, std::set<std::uint64_t>>> asked_;
    std::uint32_t most_ = 0;
};

}  // namespace quern::lir
