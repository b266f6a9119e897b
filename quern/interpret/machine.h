#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <vector>

#include "quern/interpret/code.h"

namespace quern::interpret {

/// An instruction that failed. The numbers are for the message.
struct Trap {
    std::uint32_t site = 0;
    std::int64_t value = 0;
    std::int64_t limit = 0;
};

/// Which point uses which element: the number of the only point that wrote it, and of the one that
/// read it (or kMany), since the numbers of this region began.
struct Claims {
    std::unique_ptr<std::atomic<std::uint64_t>[]> writer;
    std::unique_ptr<std::atomic<std::uint64_t>[]> reader;
    std::int64_t count = 0;
};

/// An array as one machine sees it.
struct Array {
    std::byte* data = nullptr;
    std::int64_t elements = 0;
    std::vector<std::int64_t> shape;

    /// An element is written if its mark is `mark`.
    std::uint8_t* marks = nullptr;
    std::uint8_t mark = 1;
    Claims* claims = nullptr;

    /// What this machine allocated for it, kept for the next point.
    std::unique_ptr<std::byte[]> owned;
    std::unique_ptr<std::uint8_t[]> owned_marks;
    std::int64_t capacity = 0;
};

/// Runs code, on one thread.
class Machine {
public:
    /// Called for Op::Parallel: runs the region from this machine's state.
    class Host {
    public:
        /// False after a failure, which the host keeps.
        virtual bool run_region(Machine& machine, const Region& region) = 0;

        /// The tracked loop of that index, which this machine runs, is further than before.
        virtual void report(const Machine& machine, std::uint32_t tracked) = 0;

    protected:
        ~Host() = default;
    };

    Machine(const Code& code, Host& host, std::int64_t local_limit);

    /// Starts from the registers and arrays that `main` has now.
    void copy_state(const Machine& main);

    /// Makes an array over memory of others.
    void adopt(std::uint32_t array, void* data, const std::vector<std::int64_t>& shape,
               std::uint8_t* marks);

    /// Runs the main code. False after a failure: of this machine if `has_trapped`, else of a
    /// region.
    bool run();

    /// Runs points begin to end - 1 of a region. False after a trap; `failed_point` tells where.
    bool run_points(const Region& region, std::int64_t begin, std::int64_t end);

    bool has_trapped = false;
    Trap trap;
    std::int64_t failed_point = 0;

    const Reg& operator[](std::uint32_t reg) const { return registers_[reg]; }
    Array& array(std::uint32_t index) { return arrays_[index]; }

    /// Loop iterations so far.
    std::uint64_t steps = 0;

    /// Points of this region have numbers above this one.
    std::uint64_t claim_base = 0;
    std::uint64_t claim_many = 0;

private:
    bool execute(std::uint32_t start);
    bool allocate(const Instruction& at);
    bool trapped(std::int64_t site, std::int64_t value = 0, std::int64_t limit = 0);

    const Code& code_;
    Host& host_;
    std::int64_t local_limit_;
    std::vector<Reg> registers_;
    std::vector<Array> arrays_;
    std::uint32_t id_register_ = kZero;
};

}  // namespace quern::interpret
