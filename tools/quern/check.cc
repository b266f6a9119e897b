// `quern check` and `quern devices`: what needs no input.

#include "quern/frontend/check.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "files.h"
#include "quern/device.h"
#include "quern/lang/parse.h"
#include "quern/script/script.h"

namespace quern::command {
namespace {

std::string in_units(std::int64_t bytes) {
    constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double amount = double(bytes);
    std::size_t unit = 0;
    for (; amount >= 1024 && unit + 1 < std::size(kUnits); ++unit) amount /= 1024;
    return fmt::format("{:.1f} {}", amount, kUnits[unit]);
}

}  // namespace

void check(const std::vector<std::string>& files, bool pedantic, Reporter& reporter) {
    for (const std::string& file : files) {
        std::string text;
        try {
            text = read_script(file);
        } catch (const FileError& error) {
            // The other files are still worth a report.
            reporter.add_error(error.what(), file);
            continue;
        }
        lang::Diagnostics diagnostics(text, file);
        lang::ParseOptions options;
        options.file = file;
        options.pedantic = pedantic;
        const auto source = lang::parse(std::move(text), options, diagnostics);
        if (!diagnostics.has_errors()) {
            const script::Signature signature = script::check(*source, diagnostics);
            for (const script::KernelUse& kernel : signature.kernels) {
                frontend::check(*source, kernel.compute, diagnostics, kernel.then);
            }
        }
        reporter.add(diagnostics.sorted());
    }
}

void list_devices(bool json) {
    if (json) {
        nlohmann::json array = nlohmann::json::array();
        for (const DeviceInfo& device : devices()) {
            array.push_back({{"id", device.id},
                             {"type", device.type},
                             {"name", device.name},
                             {"cores", device.cores},
                             {"memory", device.memory}});
        }
        const std::string text =
            array.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
        std::fputs((text + '\n').c_str(), stdout);
        return;
    }
    for (const DeviceInfo& device : devices()) {
        std::string line = fmt::format("{:<12} {:<12} {}", device.id, device.type, device.name);
        if (device.cores > 0) line += fmt::format(", {} threads", device.cores);
        if (device.memory > 0) line += ", " + in_units(device.memory);
        std::fputs((line + '\n').c_str(), stdout);
    }
    for (const MissingDevice& device : missing_devices()) {
        const std::string line = fmt::format("{:<12} {:<12} {}", device.id, "none", device.why);
        std::fputs((line + '\n').c_str(), stdout);
    }
}

}  // namespace quern::command
