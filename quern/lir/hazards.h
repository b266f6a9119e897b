#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "quern/lir/lir.h"

namespace quern::lir {

/// The dtype in which lanes tell each other the operand of an instruction, if it needs that.
std::optional<DType> exchanged_as(const Function& function, const Inst& inst);

/// Whether an instruction writes elements of a buffer.
bool is_store(Op op);

/// Where lanes of a work-group must meet: an element that one lane wrote may be read or written by
/// another, and one that was read may be written. Follows a function in the order of its
/// instructions, and knows what was touched in each memory since the lanes last met for it.
class Hazards {
public:
    /// `subgroup`: how many lanes the device runs together.
    explicit Hazards(const Function& function, std::uint32_t subgroup = 1);

    /// An array of a thread lies in the group's memory, and never shares it with another array.
    void keep(BufferId array) { kept_.insert(array); }

    /// The dtype of the array by which lanes tell each other the operand of an instruction; none
    /// if subgroups do without, or nothing is told.
    std::optional<DType> shown_as(const Inst& inst) const;

    /// For which memory the lanes must meet before an access, and before the first iteration of a
    /// loop; both count what comes as touched.
    Spaces before_access(ValueId id);
    Spaces before_loop(ValueId loop);

    /// The same before lanes put values in the array by which they show each other values of a
    /// dtype, which is the group's. They meet again before they read it.
    bool before_exchange(DType dtype);

    /// That elements of a buffer are read, or written: by whom, and the number of the access, or 0.
    struct Use {
        BufferId buffer = 0;
        bool is_write = false;
        std::uint32_t who = 0;
        std::uint32_t number = 0;

        auto operator<=>(const Use&) const = default;
    };

    /// What is touched at some place; several ways lead to one that follows them.
    struct State {
        /// In their order, each once.
        std::vector<Use> uses;

        void add(const Use& use);
        void add(const State& other);
    };
    const State& now() const { return now_; }
    void continue_from(State state) { now_ = std::move(state); }

private:
    /// Who touches an element: the lane whose place in a row of lanes it has, any lane, the first,
    /// any in an earlier iteration, those that store matrices, each of which has its place; below
    /// these, the lanes of the store that is the instruction, each in its iterations.
    using Who = std::uint32_t;
    static constexpr Who kOwn = ~Who{0}, kAny = kOwn - 1, kFirst = kAny - 1, kEarlier = kFirst - 1,
                         kMatrices = kEarlier - 1;

    /// An offset in a loop: the same in each iteration; the loop's variable and what is the same;
    /// that of each lane, a multiple of the variable and the lane's number and what is the same;
    /// the lane's number alone; another.
    enum class Form : std::uint8_t { Same, Variable, Lanes, Lane, Other };
    Form form(ValueId id, ValueId loop, int depth) const;
    bool writes_apart(ValueId store, ValueId loop) const;

    bool is_multiple(ValueId id, int depth) const;
    Who who(const Inst& inst, ValueId id) const;
    Use earlier(Use use, ValueId loop) const;
    void touch(ValueId id, State& state) const;

    /// `made`: arrays that begin there.
    void collect(BlockId block, State& all, std::vector<BufferId>& made) const;
    BufferId array_of(DType dtype) const;
    Spaces memory_of(BufferId buffer) const;
    Spaces meets(const State& before, const State& next) const;
    void forget(Spaces spaces);
    Spaces follow(const State& next);

    const Function& f_;
    std::uint32_t lanes_;
    std::uint32_t subgroup_;
    std::vector<bool> written_;
    std::set<BufferId> kept_;
    State now_;
};

}  // namespace quern::lir
