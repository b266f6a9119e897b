#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "quern/ir/cir.h"

namespace quern::ir {

/// Collects the findings of `verify`.
class Violations {
public:
    void add(std::string_view where, Span span, std::string_view what) {
        constexpr std::size_t most = 20;
        if (list.size() == most) return;
        std::string text(where);
        if (span != Span{}) {
            text += " @" + std::to_string(span.begin) + "+" + std::to_string(span.length);
        }
        list.push_back(text + ": " + std::string(what));
    }

    std::vector<std::string> list;
};

/// Checks every node of the arena. Statements may be looked at only if it adds nothing, since they
/// follow ids without asking.
void verify_nodes(const Kernel& kernel, Violations& violations);

/// Checks buffers, constraints and statements over valid nodes.
void verify_statements(const Kernel& kernel, Violations& violations);

}  // namespace quern::ir
