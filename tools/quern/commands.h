#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report.h"

// The commands behind their options. Each reports errors by throwing or to the reporter; main
// turns both into the exit status.

namespace quern::command {

struct RunArguments {
    std::string file;
    std::vector<std::string> in;
    std::vector<std::string> arg;
    std::vector<std::string> out;

    /// `explain` and `bake` only: operands of which only dtype and shape matter.
    std::vector<std::string> shape;

    /// Files of baked kernels.
    std::vector<std::string> kernels;

    /// `bake` only: where to, and for which processors.
    std::string bundle;
    std::vector<std::string> instructions;
    std::optional<std::string> device;
    std::string numerics;
    int threads = 0;
    bool pedantic = false;
    bool explain = false;

    /// `explain` only: runs the kernels and says how long they take.
    bool measure = false;
};

void run(const RunArguments& arguments, Reporter& reporter);
void explain(const RunArguments& arguments, Reporter& reporter);
void bench(const RunArguments& arguments, Reporter& reporter);
void bake(const RunArguments& arguments, Reporter& reporter);
void check(const std::vector<std::string>& files, bool pedantic, Reporter& reporter);
void list_devices(bool json);

}  // namespace quern::command
