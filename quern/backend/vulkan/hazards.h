#pragma once

#include <map>
#include <set>
#include <vector>

#include "quern/lir/lir.h"

namespace quern::vulkan {

/// Where lanes of a work-group must meet: an element that one lane wrote may be read or written by
/// another, and one that was read may be written. Follows a function in the order of its
/// instructions, and knows what was touched since the lanes last met.
class Hazards {
public:
    explicit Hazards(const lir::Function& function);

    /// Whether some instruction writes the buffer.
    bool is_written(lir::BufferId buffer) const { return written_[buffer]; }

    /// Whether the lanes must meet before an access, and before the first iteration of a loop; both
    /// count what comes as touched.
    bool before_access(lir::ValueId id);
    bool before_loop(lir::BlockId body);

    /// The lanes met.
    void met() { now_ = {}; }

    /// What is touched at some place; several ways lead to one that follows them.
    struct State {
        std::set<lir::BufferId> read;
        std::map<lir::BufferId, std::set<lir::ValueId>> writers;

        bool is_empty() const { return read.empty() && writers.empty(); }
        void add(const State& other);
    };
    const State& now() const { return now_; }
    void continue_from(State state) { now_ = std::move(state); }

private:
    void collect(lir::BlockId block, State& all) const;
    void touch(lir::ValueId id, State& state) const;
    lir::ValueId writer(lir::ValueId id) const;

    const lir::Function& f_;
    std::vector<bool> written_;
    State now_;
};

}  // namespace quern::vulkan
