#include "quern/frontend/pass_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <limits>
#include <new>

#include "quern/error.h"
#include "quern/frontend/work.h"
#include "quern/ir/print.h"
#include "quern/ir/verify.h"
#include "quern/support/check.h"

namespace quern::frontend {
namespace {

/// Where the bounds of loops are data, work is counted too low; this is how much too low it may be.
constexpr double kMostMore = 16;

std::atomic<std::size_t> checked{0};

/// How much work is checked, by what the environment says.
double work_that_is_checked() {
    static const double value = [] {
        const char* const text = std::getenv("QUERN_CHECK_PASSES");
        const std::string_view word = text ? text : "";
        if (word == "all") return std::numeric_limits<double>::infinity();
#ifdef NDEBUG
        return -1.0;
#else
        // The interpreter takes some tens of milliseconds for so much.
        constexpr double kSmall = 1 << 20;
        return word == "none" ? -1.0 : kSmall;
#endif
    }();
    return value;
}

}  // namespace

PassCheck::PassCheck(const BoundLaunch& launch, double most_work)
    : launch_(launch), most_work_(most_work) {}

std::size_t PassCheck::count() noexcept { return checked.load(); }

void PassCheck::see(std::string_view pass, const ir::Kernel& kernel) {
    if (is_off_ || !fault_.empty()) return;
#if QUERN_EXCEPTIONS
    try {
        unless_out_of_memory([&] { check(pass, kernel); });
    } catch (const std::exception& error) {
        fault_ = fmt::format("after the pass '{}': {}", pass, error.what());
    }
#else
    check(pass, kernel);
#endif
}

template <class Work>
void PassCheck::unless_out_of_memory(const Work& work) {
#if QUERN_EXCEPTIONS
    try {
        work();
    } catch (const std::bad_alloc&) {
        is_off_ = true;
    } catch (const OutOfMemory&) {
        is_off_ = true;
    }
#else
    work();
#endif
}

bool PassCheck::is_small() const {
    const Work work = work_of(launch_);
    return work.operations + work.functions + work.points <= most_work_ &&
           work.bytes() <= most_work_;
}

void PassCheck::check(std::string_view pass, const ir::Kernel& kernel) {
    if (kernel_.empty()) {
        is_off_ = !is_small();
        if (is_off_) return;
        kernel_ = ir::identity(launch_.kernel());
        expected_ = interpreted(launch_.prepared->program);
        is_off_ = double(interpret::Program::steps_of_last_run()) > kMostMore * most_work_;
        if (is_off_) return;
    }
    if (const auto broken = ir::verify(kernel); !broken.empty()) {
        fault_ =
            fmt::format("the pass '{}' makes a kernel that is not valid: {}", pass, broken.front());
        return;
    }
    std::string identity = ir::identity(kernel);
    if (identity == kernel_) return;
    kernel_ = std::move(identity);
    checked.fetch_add(1, std::memory_order_relaxed);
    const std::string changed = difference(interpreted(interpret::Program(kernel)));
    if (!changed.empty()) fault_ = fmt::format("the pass '{}' {}", pass, changed);
}

void PassCheck::see_result(const Tensor& result) {
    if (is_off_ || kernel_.empty() || !fault_.empty() || !has_one_result()) return;
    const auto compare = [&] {
        const auto* const data = static_cast<const std::byte*>(result.data());
        const std::string changed = difference(std::vector(data, data + result.bytes()));
        checked.fetch_add(1, std::memory_order_relaxed);
        if (!changed.empty()) fault_ = "what was compiled " + changed;
    };
    unless_out_of_memory(compare);
}

bool PassCheck::has_one_result() const {
    if (launch_.numerics != Numerics::Strict) return launch_.numerics == Numerics::Reproducible;
    const ir::Kernel& kernel = launch_.prepared->lowered.kernel;
    const bool adds_up = std::ranges::any_of(kernel.symbols, [](const ir::Symbol& symbol) {
        return symbol.kind == ir::SymbolKind::Var && is_floating(symbol.dtype);
    });
    return !adds_up && std::ranges::none_of(kernel.exprs, ir::is_function);
}

std::optional<std::vector<std::byte>> PassCheck::interpreted(
    const interpret::Program& program) const {
    interpret::View output = launch_.output;
    std::vector<std::byte> result(std::size_t(element_count(output.shape)) * size_of(output.dtype));
    output.data = result.data();
    // On this thread alone: it holds the lock of the code that is being made.
    const auto failure = program.run(launch_.binding.dims, launch_.scalars, launch_.views, output,
                                     {.threads = 1, .progress = {}});
    if (failure) return std::nullopt;
    return result;
}

std::string PassCheck::difference(const std::optional<std::vector<std::byte>>& result) const {
    if (result.has_value() != expected_.has_value()) {
        return result ? "makes a launch end that failed" : "makes a launch fail that ended";
    }
    if (!result || *result == *expected_) return {};
    const std::size_t size = size_of(launch_.dtype);
    const auto values = [&](std::vector<std::byte> bytes) {
        const auto count = std::int64_t(bytes.size() / size);
        return Tensor::adopt(bytes.data(), {count}, launch_.dtype).values();
    };
    const std::vector<double> before = values(*expected_), after = values(*result);
    for (std::size_t i = 0; i < before.size(); ++i) {
        const bool is_same =
            std::memcmp(expected_->data() + i * size, result->data() + i * size, size) == 0;
        // IEEE 754 leaves a NaN's bits open.
        if (is_same || (std::isnan(before[i]) && std::isnan(after[i]))) continue;
        return fmt::format("changes element {} from {} to {}", i, before[i], after[i]);
    }
    return {};
}

std::unique_ptr<PassCheck> pass_check(const BoundLaunch& launch) {
    const double most = work_that_is_checked();
    return most < 0 ? nullptr : std::make_unique<PassCheck>(launch, most);
}

}  // namespace quern::frontend
