#include "quern/frontend/self_test.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <span>
#include <utility>

#include "quern/error.h"
#include "quern/frontend/bound.h"
#include "quern/frontend/vulkan_launch.h"
#include "quern/lang/parse.h"
#include "quern/runtime/cpu_plugin.h"
#include "quern/runtime/device_options.h"
#include "quern/runtime/disk_cache.h"
#include "quern/support/check.h"
#include "quern/support/threads.h"

namespace quern::frontend {
namespace {

/// Odd, and more than the invocations of a work-group.
constexpr std::int64_t kCount = 259;

constexpr const char* kReversed =
    "compute(x: [n]) {\n    @kernel custom\n    for i in 0..n: out[i] = x[n - 1 - i]\n}";
constexpr const char* kCopied =
    "compute(x) {\n    @kernel custom\n    for i in 0..n: out[i] = x[i]\n}";
/// Where a divisor is large, what is not divided by it would be infinite.
constexpr const char* kArithmetic =
    "compute(x, y) {\n    @kernel custom\n"
    "    for i in 0..n:\n"
    "        let rest = select(abs(y[i]) < 8e37, sqrt(abs(x[i])) * y[i], 0.0)\n"
    "        out[i] = x[i] / y[i] + rest\n}";
constexpr const char* kSumsAndProducts =
    "compute(x, y) {\n    @kernel custom\n    for i in 0..n: out[i] = x[i] * y[i] + x[i]\n}";
constexpr const char* kComparisons =
    "compute(x, y) {\n    @kernel custom\n"
    "    for i in 0..n:\n"
    "        let best = max(x[i], y[i])\n"
    "        let compared = select(x[i] < y[i], 1.0, 2.0) + select(best == best, 4.0, 8.0)\n"
    "        out[i] = compared + select(x[i] != x[i], 16.0, 32.0)\n}";
constexpr const char* kIntegers =
    "compute(x, y) {\n    @kernel custom\n"
    "    for i in 0..n:\n"
    "        let rest = x[i] % 5 + select(i64(x[i]) < 1, y[i], x[i])\n"
    "        out[i] = (x[i] * y[i] - 3) / 7 + rest - min(x[i], y[i])\n}";
constexpr const char* kRowSums =
    "compute(x) {\n    @kernel custom\n    for b in 0..rows:\n        var sum = 0\n"
    "        for i in 0..n:\n            sum += x[b, i]\n        out[b] = sum\n}";

constexpr const char* kDots =
    "compute(x, y) {\n    @kernel custom\n    for b in 0..rows:\n        var sum = 0.0\n"
    "        for i in 0..n:\n            sum += x[b, i] * y[i]\n        out[b] = sum\n}";

/// Where the `let` keeps the second loop out of the grid.
constexpr const char* kSumsOfRows =
    "compute(x) {\n    @kernel custom\n    for b in 0..batch:\n        let first = x[b, 0, 0]\n"
    "        for i in 0..rows:\n            var sum = 0.0\n            for k in 0..n:\n"
    "                sum += x[b, i, k]\n            out[b, i] = sum + first\n}";

/// Lanes of a sum that is in no row.
constexpr std::uint32_t kOfSums = 16;

constexpr const char* kProduct =
    "compute(a, b) {\n    @kernel custom\n    for i in 0..m, j in 0..n:\n        var sum = 0.0\n"
    "        for k in 0..depth:\n            sum += a[i, k] * b[k, j]\n"
    "        out[i, j] = f32(sum)\n}";

constexpr const char* kHalves =
    "compute(x, y) {\n    @kernel custom\n"
    "    for i in 0..n: out[i] = f16(f32(x[i]) * 0.33) * y[i] + x[i] - y[i] * x[i]\n}";

Tensor on_host(Shape shape, DType dtype) {
    return Tensor(std::move(shape), dtype, Device("interpreter"));
}

/// Divisors whose reciprocal is denormal, and what they divide with a quotient that is normal.
template <class Element>
void add_large(std::vector<Tensor>& pairs) {
    constexpr Element kLargest = std::numeric_limits<Element>::max();
    for (int i = 8; i < 16; ++i) {
        pairs[0].data<Element>()[i] = kLargest * (Element(i) / 16);
        pairs[1].data<Element>()[i] = kLargest * (1 - Element(i) / 32);
    }
}

/// Each of them beside each other one.
template <class Element>
std::vector<Tensor> pairs_with_nan(DType dtype) {
    constexpr Element kInf = std::numeric_limits<Element>::infinity();
    constexpr Element kNaN = std::numeric_limits<Element>::quiet_NaN();
    constexpr Element kValues[] = {kNaN, 0, 1, -2, kInf, -kInf};
    constexpr int kMany = int(std::size(kValues));
    std::vector<Tensor> pairs{on_host({kMany * kMany}, dtype), on_host({kMany * kMany}, dtype)};
    for (int i = 0; i < kMany * kMany; ++i) {
        pairs[0].data<Element>()[i] = kValues[i / kMany];
        pairs[1].data<Element>()[i] = kValues[i % kMany];
    }
    return pairs;
}

/// Numbers from half to twice one, of either sign; bits of any kind for others than floats.
Tensor some_elements(const Shape& shape, DType dtype, unsigned seed) {
    std::mt19937 engine(seed);
    if (is_floating(dtype)) {
        Tensor numbers = on_host(shape, DType::Float64);
        for (std::int64_t i = 0; i < numbers.element_count(); ++i) {
            const double size = 0.5 + double(engine() % 4096) / 2731;
            numbers.data<double>()[i] = engine() % 2 ? size : -size;
        }
        return numbers.to(dtype);
    }
    Tensor result = on_host(shape, dtype);
    auto* const bytes = static_cast<unsigned char*>(result.data());
    for (std::size_t i = 0; i < result.bytes(); ++i) {
        bytes[i] = static_cast<unsigned char>(dtype == DType::Bool ? engine() % 2 : engine());
    }
    return result;
}

/// Numbers of any size whose quotients, roots and products are normal: Vulkan lets a driver take
/// others as zero, which no reproducible result can be held against.
template <class Element>
Tensor normal_numbers(DType dtype, unsigned seed) {
    std::mt19937_64 engine(seed);
    Tensor result = on_host({kCount}, dtype);
    constexpr int kMost = std::numeric_limits<Element>::max_exponent / 4;
    for (std::int64_t i = 0; i < kCount; ++i) {
        const auto fraction = Element(engine() >> 11) * Element(0x1p-53);
        const int exponent = int(engine() % (2 * kMost)) - kMost;
        const Element size = std::ldexp(1 + fraction, exponent);
        result.data<Element>()[i] = engine() % 2 ? size : -size;
    }
    return result;
}

template <class Element>
std::vector<Tensor> normal_pairs(DType dtype, bool has_large) {
    std::vector pairs{normal_numbers<Element>(dtype, 2), normal_numbers<Element>(dtype, 3)};
    if (has_large) add_large<Element>(pairs);
    return pairs;
}

/// Of whole numbers whose sums any dtype of 32 bits has.
Tensor some_rows(DType dtype) {
    Tensor rows = on_host({3, kCount}, DType::Int32);
    for (std::int64_t i = 0; i < rows.element_count(); ++i) {
        rows.data<std::int32_t>()[i] = std::int32_t(i * 37 % 101);
    }
    return rows.to(dtype);
}

/// Of any size, denormal ones, infinities and NaN among them.
Tensor some_halves(unsigned seed) {
    constexpr std::int64_t kMany = 2048;
    std::mt19937 engine(seed);
    Tensor result = on_host({kMany}, DType::Float16);
    auto* const bytes = static_cast<unsigned char*>(result.data());
    for (std::size_t i = 0; i < result.bytes(); ++i) {
        bytes[i] = static_cast<unsigned char>(engine());
    }
    return result;
}

/// Whose sums are more than float16 has, with what is no number among them.
std::vector<Tensor> some_matrices() {
    Tensor a = some_elements({70, 40}, DType::Float32, 4);
    a.data<float>()[3 * 40 + 5] = std::numeric_limits<float>::infinity();
    a.data<float>()[60 * 40 + 39] = std::numeric_limits<float>::quiet_NaN();
    return {a.to(DType::Float16), some_elements({40, 130}, DType::Float16, 5)};
}

Probe of_elements(DType dtype) {
    return {.what = fmt::format("elements of {}", to_string(dtype)),
            .text = kReversed,
            .operands = [=] { return std::vector{some_elements({kCount}, dtype, 1)}; }};
}

/// Of a kernel's operands and result.
std::set<DType> dtypes_of(const ir::Kernel& kernel) {
    std::set<DType> dtypes;
    for (std::size_t i = 0; i <= kernel.operand_count; ++i) dtypes.insert(kernel.buffers[i].dtype);
    return dtypes;
}

/// Bit for bit. Vulkan promises that of sums and products; quotients and roots it lets be off by a
/// few units, which only kernels that take some are refused for.
Probe of_reproducible_arithmetic(DType dtype, bool has_quotients) {
    const std::string name(to_string(dtype));
    return {.what = (has_quotients ? "reproducible quotients and roots of "
                                   : "reproducible sums and products of ") +
                    name,
            .text = has_quotients ? kArithmetic : kSumsAndProducts,
            .operands =
                [=] {
                    return dtype == DType::Float64 ? normal_pairs<double>(dtype, has_quotients)
                                                   : normal_pairs<float>(dtype, has_quotients);
                },
            .numerics = Numerics::Reproducible};
}

Probe of_comparisons(DType dtype) {
    return {.what = fmt::format("comparisons of {} with what is no number", to_string(dtype)),
            .text = kComparisons,
            .operands = [=] {
                return dtype == DType::Float64 ? pairs_with_nan<double>(dtype)
                                               : pairs_with_nan<float>(dtype);
            }};
}

Probe of_arithmetic(DType dtype) {
    // Vulkan promises float32 to a few units. A device that has float64 as float32 only has none
    // for kernels.
    const double tolerance = !is_floating(dtype) ? 0 : dtype == DType::Float64 ? 1e-13 : 1e-5;
    return {.what = "arithmetic of " + std::string(to_string(dtype)),
            .text = is_floating(dtype) ? kArithmetic : kIntegers,
            .operands =
                [=] {
                    std::vector all{some_elements({kCount}, dtype, 2),
                                    some_elements({kCount}, dtype, 3)};
                    if (dtype == DType::Float32) add_large<float>(all);
                    return all;
                },
            .tolerance = tolerance};
}

bool are_close(double got, double expected, double tolerance) {
    if (std::isnan(expected) || std::isnan(got)) return std::isnan(expected) == std::isnan(got);
    if (std::isinf(expected) || std::isinf(got)) return expected == got;
    return std::abs(got - expected) <= tolerance * (4 + std::abs(expected));
}

/// Whether two elements have the same bits.
bool are_same(const Tensor& a, const Tensor& b, std::int64_t i) {
    const std::size_t size = size_of(a.dtype());
    const auto at = [&](const Tensor& t) {
        return static_cast<const std::byte*>(t.data()) + std::size_t(i) * size;
    };
    return std::memcmp(at(a), at(b), size) == 0;
}

struct Parsed {
    explicit Parsed(const std::string& text) {
        lang::Diagnostics diagnostics(text);
        source = lang::parse(text, {}, diagnostics);
        diagnostics.raise();
        const lang::Tree tree = source->tree();
        compute = tree.child(tree[tree.root].first, 0);
    }
    std::shared_ptr<const lang::Source> source;
    lang::NodeId compute = -1;
};

LaunchOptions options_of(const Probe& probe, const Device& device) {
    LaunchOptions options;
    options.placement.device = device;
    options.numerics = probe.numerics;
    return options;
}

Tensor interpreted(const Probe& probe) {
    const Device interpreter("interpreter");
    const Parsed parsed(probe.text);
    return launch(*parsed.source, parsed.compute, probe.operands(), {},
                  options_of(probe, interpreter));
}

Tensor on_vulkan(const Probe& probe, const Device& device) {
    const Parsed parsed(probe.text);
    const BoundLaunch bound_launch =
        bound(*parsed.source, parsed.compute, probe.operands(), {}, options_of(probe, device));
    Tensor result = on_host(bound_launch.binding.output, bound_launch.dtype);
    run_on_vulkan(bound_launch, device, result, /*keeps_result=*/true,
                  {.points = probe.points,
                   .may_have_packets = probe.may_have_packets,
                   .may_fuse = probe.may_fuse,
                   .atom = probe.atom});
    return result;
}

thread_local bool probes = false;

struct Probing {
    Probing() { probes = true; }
    ~Probing() { probes = false; }
};

/// What is known of each driver's probes.
struct Known {
    Mutex mutex;
    std::map<std::string, std::string> faults;
};

Known& known() {
    static Known& instance = *new Known;
    return instance;
}

std::string driver_of(const Device& device) {
    std::string why;
    vulkan::Driver* const driver = vulkan::driver(why);
    return driver ? driver->devices().at(*vulkan_number(device.id())).driver : why;
}

std::string key_of(const Probe& probe, const Device& device) {
    const lir::Atom& atom = probe.atom;
    return fmt::format("vulkan probe\n{}\n{}\n{}\n{}\n{}\n{} {} {}\n{}\n{} {} {} {} {}",
                       cpu::code_version(), driver_of(device), probe.what, probe.text,
                       to_string(probe.numerics), int(probe.points), probe.may_have_packets,
                       probe.may_fuse, probe.tolerance, atom.rows, atom.columns, atom.depth,
                       to_string(atom.operand), to_string(atom.sum));
}

/// What is known of a probe from now on, with a warning if that is a fault. `where`: what says so
/// already, as " (kept in FILE)".
std::string noted(const Probe& probe, const Device& device, const std::string& key,
                  const std::string& fault, const std::string& where) {
    {
        const Lock lock(known().mutex);
        const auto [known_fault, is_new] = known().faults.emplace(key, fault);
        if (!is_new) return known_fault->second;
    }
    if (!fault.empty()) {
        Diagnostic diagnostic;
        diagnostic.severity = Severity::Warning;
        diagnostic.message =
            fmt::format("[{}] {}: its driver fails the test of {}: {}{}; {}", device.id(),
                        driver_of(device), probe.what, fault, where, probe.otherwise);
        warn(diagnostic);
    }
    return fault;
}

}  // namespace

std::vector<Probe> probes_for(const ir::Kernel& kernel, Numerics numerics, bool has_quotients) {
    std::vector<Probe> probes;
    for (const DType dtype : dtypes_of(kernel)) {
        probes.push_back(of_elements(dtype));
        // Floats of 16 bits are computed with as float32, and bools not at all.
        if (dtype == DType::Bool || (is_floating(dtype) && size_of(dtype) < 4)) continue;
        if (is_floating(dtype) && numerics == Numerics::Reproducible) {
            probes.push_back(of_reproducible_arithmetic(dtype, has_quotients));
        } else {
            probes.push_back(of_arithmetic(dtype));
        }
        // Fast mode leaves it open what becomes of them.
        if (is_floating(dtype) && numerics != Numerics::Fast)
            probes.push_back(of_comparisons(dtype));
    }
    return probes;
}

Probe probe_of_fused() {
    return {.what = "products and sums in one",
            .text = kDots,
            .operands =
                [] {
                    Tensor rows = some_elements({9, kCount}, DType::Float32, 7);
                    const float others[] = {std::numeric_limits<float>::quiet_NaN(),
                                            std::numeric_limits<float>::infinity(),
                                            -std::numeric_limits<float>::infinity()};
                    for (int i = 0; i < 3; ++i) {
                        rows.data<float>()[(3 + i) * kCount + 50 * i] = others[i];
                    }
                    return std::vector{rows, some_elements({kCount}, DType::Float32, 8)};
                },
            .may_fuse = true,
            .otherwise = "they are two operations instead",
            // Sums of 259 products of at most 4, in any order.
            .tolerance = 1e-5};
}

std::vector<Probe> probes_of_packets(const ir::Kernel& kernel) {
    std::vector<Probe> probes;
    for (const DType dtype : dtypes_of(kernel)) {
        if (size_of(dtype) > 4) continue;
        probes.push_back({.what = fmt::format("packets of {}", to_string(dtype)),
                          .text = kCopied,
                          .operands = [=] { return std::vector{some_elements({256}, dtype, 6)}; },
                          .points = vulkan::PointsAre::GroupsByMemory,
                          .may_have_packets = true,
                          .otherwise = "lanes load and store one element at a time instead"});
    }
    return probes;
}

std::vector<Probe> probes_of_lanes(std::uint32_t lanes) {
    std::vector<Probe> probes;
    if (lanes == 0) return probes;
    constexpr const char* kOtherwise = "invocations do whole points instead";
    probes.push_back({.what = "sums by the lanes of a work-group",
                      .text = kRowSums,
                      .operands = [] { return std::vector{some_rows(DType::Int32)}; },
                      .points = vulkan::PointsAre::GroupsByMemory,
                      .otherwise = kOtherwise});
    // Those of the sums may be of one subgroup, which goes on together without a barrier.
    if (lanes > kOfSums) {
        probes.push_back({.what = "products by all lanes of a work-group",
                          .text = kProduct,
                          .operands =
                              [] {
                                  return std::vector{some_elements({70, 40}, DType::Float32, 4),
                                                     some_elements({40, 130}, DType::Float32, 5)};
                              },
                          .points = vulkan::PointsAre::GroupsByMemory,
                          .otherwise = kOtherwise,
                          // Sums of 40 products of at most 4, in any order.
                          .tolerance = 1e-5});
    }
    return probes;
}

Probe probe_of_subgroups(std::uint32_t lanes) {
    const bool are_rows = lanes > kOfSums;
    return {.what = are_rows ? "sums by subgroups of a work-group's rows"
                             : "sums by subgroups of a work-group",
            .text = are_rows ? kSumsOfRows : kRowSums,
            // Sums of int32 are int64, which lanes exchange by memory.
            .operands =
                [=] {
                    const Tensor rows = some_rows(DType::Float32);
                    return std::vector{are_rows ? rows.reshape({3, 7, kCount / 7}) : rows};
                },
            .points = vulkan::PointsAre::Groups,
            .otherwise = "lanes use memory instead"};
}

Probe probe_of_matrices(const lir::Atom& atom) {
    return {.what = fmt::format("products of matrices of {} x {} x {} by subgroups", atom.rows,
                                atom.columns, atom.depth),
            .text = kProduct,
            .operands = [] { return some_matrices(); },
            .points = vulkan::PointsAre::Groups,
            .atom = atom,
            .otherwise = "each lane multiplies for itself instead",
            // Sums of 40 products of at most 4, in float32 but in any order.
            .tolerance = 1e-5};
}

Probe probe_of_float16() {
    return {.what = "arithmetic of float16 as it is",
            .text = kHalves,
            .operands =
                [] {
                    return std::vector{some_halves(2), some_halves(3)};
                },
            .otherwise = "it is computed with as float32 instead"};
}

Probe probe_of_folding() {
    return {.what = "floats that it folds",
            .text =
                "compute(x) {\n    @kernel custom\n"
                "    for i in 0..n, j in 0..2:\n"
                "        let zero = f32(j * (i - i))\n"
                "        out[i, j] = select(j > 0, x[i] * zero + (x[i] + zero),\n"
                "                           x[i] * 0.0 + (x[i] + 0.0))\n}",
            .operands =
                [] {
                    constexpr float kInf = std::numeric_limits<float>::infinity();
                    constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
                    const float values[] = {2, kInf, -kInf, -0.0f, kNaN, 0, -3};
                    Tensor x = on_host({std::int64_t(std::size(values))}, DType::Float32);
                    std::ranges::copy(values, x.data<float>());
                    return std::vector{x};
                },
            .otherwise = "they are hidden from it instead"};
}

bool is_probing() noexcept { return probes; }

std::string fault_of(const Probe& probe, const std::function<Tensor(const Probe&)>& run) {
    const Tensor expected = interpreted(probe), got = run(probe);
    if (got.shape() != expected.shape() || got.dtype() != expected.dtype()) {
        return fmt::format("expected {} elements, got {}", expected.element_count(),
                           got.element_count());
    }
    const std::vector<double> a = expected.values(), b = got.values();
    for (std::size_t i = 0; i < a.size(); ++i) {
        const bool is_right = are_same(expected, got, std::int64_t(i)) ||
                              (std::isnan(a[i]) && std::isnan(b[i])) ||
                              (probe.tolerance > 0 && are_close(b[i], a[i], probe.tolerance));
        if (!is_right) return fmt::format("expected {}, got {}", a[i], b[i]);
    }
    return {};
}

namespace {

struct Outcome {
    std::string fault;

    /// Whether it is the same each time. Drivers that do not compile code need not say why.
    bool is_kept = true;
};

/// Code that the driver does not take is its fault too.
Outcome outcome_of(const Probe& probe, const Device& device) {
    const auto run = [&](const Probe& each) {
        const Probing probing;
        return on_vulkan(each, device);
    };
#if QUERN_EXCEPTIONS
    try {
        return {fault_of(probe, run)};
    } catch (const UncompiledCode& uncompiled) {
        return {uncompiled.error(), false};
    }
#else
    return {fault_of(probe, run)};
#endif
}

}  // namespace

std::string fault_of(const Probe& probe, const Device& device) {
    if (is_probing()) return {};
    const std::string key = key_of(probe, device);
    Known& all = known();
    {
        const Lock lock(all.mutex);
        if (const auto found = all.faults.find(key); found != all.faults.end()) {
            return found->second;
        }
    }
    const DiskCache* const cache = DiskCache::of_process();
    if (const auto kept = cache ? cache->read(key) : std::nullopt) {
        const std::string fault(reinterpret_cast<const char*>(kept->data()), kept->size());
        return noted(probe, device, key, fault, fmt::format(" (kept in {})", cache->path_of(key)));
    }
    const auto [fault, is_kept] = outcome_of(probe, device);
    if (cache && is_kept) cache->write(key, std::as_bytes(std::span(fault)));
    return noted(probe, device, key, fault, {});
}

}  // namespace quern::frontend
