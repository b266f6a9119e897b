// What a benchmark is to reach, and what it did not.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

namespace quern::bench {

class Targets {
public:
    void at_least(const std::string& what, double got, double target) {
        if (!(got >= target)) missed(fmt::format("{}: {:.2f}, target {}", what, got, target));
    }
    void at_most(const std::string& what, double got, double target) {
        if (!(got <= target)) missed(fmt::format("{}: {:.2f}, target {}", what, got, target));
    }
    void missed(std::string what) { missed_.push_back(std::move(what)); }

    /// Prints what was missed; what main() returns.
    int finish() const {
        for (const std::string& each : missed_) std::printf("missed: %s\n", each.c_str());
        return missed_.empty() ? 0 : 1;
    }

private:
    std::vector<std::string> missed_;
};

}  // namespace quern::bench
