#include "quern/ir/facts.h"

#include <algorithm>
#include <bit>

#include "quern/support/check.h"
#include "quern/support/processor.h"

namespace quern::ir {
namespace {

constexpr int kMostLog2 = 7;

/// Zero is divisible by everything.
std::uint8_t divisible_log2(std::uint64_t value) {
    return static_cast<std::uint8_t>(value == 0 ? kMostLog2
                                                : std::min(std::countr_zero(value), kMostLog2));
}

DimFacts facts_of(std::int64_t value) {
    DimFacts facts;
    facts.is_one = value == 1;
    facts.divisible_log2 = divisible_log2(static_cast<std::uint64_t>(value));
    facts.bucket = value <= most_of(Bucket::Tiny)    ? Bucket::Tiny
                   : value <= most_of(Bucket::Small) ? Bucket::Small
                                                     : Bucket::Large;
    return facts;
}

OperandFacts facts_of(const OperandView& view) {
    OperandFacts facts;
    facts.dtype = view.dtype;
    facts.rank = static_cast<std::uint8_t>(view.shape.size());
    facts.aligned_log2 = divisible_log2(reinterpret_cast<std::uintptr_t>(view.data));
    std::int64_t expected = 1;
    for (std::size_t axis = view.shape.size(); axis-- > 0;) {
        if (view.shape[axis] != 1 && view.strides[axis] != expected) break;
        expected *= view.shape[axis];
        ++facts.contiguous_axes;
    }
    return facts;
}

bool is_streamed(const OperandView& output, const OperandFacts& facts) {
    constexpr int kLog2 = 6;
    if (output.shape.empty()) return false;
    std::size_t bytes = size_of(output.dtype);
    for (const std::int64_t extent : output.shape) bytes *= std::size_t(extent);
    const bool has_whole_rows = facts.rank == 1 || output.shape.back() % kLine == 0;
    return facts.aligned_log2 >= kLog2 && facts.contiguous_axes == facts.rank && has_whole_rows &&
           bytes >= largest_cache();
}

bool holds(const DimFacts& assumed, const DimFacts& actual) {
    return (!assumed.is_one || actual.is_one) && assumed.divisible_log2 <= actual.divisible_log2 &&
           actual.bucket <= assumed.bucket;
}

bool holds(const OperandFacts& assumed, const OperandFacts& actual) {
    return assumed.dtype == actual.dtype && assumed.rank == actual.rank &&
           assumed.contiguous_axes <= actual.contiguous_axes &&
           assumed.aligned_log2 <= actual.aligned_log2 &&
           (!assumed.is_streamed || actual.is_streamed);
}

}  // namespace

Facts facts_of(const Kernel& kernel, std::span<const std::int64_t> dims,
               std::span<const OperandView> views) {
    QUERN_CHECK(dims.size() == kernel.dims.size(), "a value for each dim");
    QUERN_CHECK(views.size() == kernel.operand_count + std::size_t{1},
                "a view for each operand and the output");
    Facts facts;
    for (const std::int64_t value : dims) facts.dims.push_back(facts_of(value));
    for (const OperandView& view : views) {
        QUERN_CHECK(view.shape.size() == view.strides.size(), "a stride for each axis");
        facts.operands.push_back(facts_of(view));
    }
    facts.operands.back().is_streamed = is_streamed(views.back(), facts.operands.back());
    return facts;
}

bool holds(const Facts& assumed, const Facts& actual) {
    const auto each = [](const auto& x, const auto& y) { return holds(x, y); };
    return std::equal(assumed.dims.begin(), assumed.dims.end(), actual.dims.begin(),
                      actual.dims.end(), each) &&
           std::equal(assumed.operands.begin(), assumed.operands.end(), actual.operands.begin(),
                      actual.operands.end(), each);
}

bool serves(const Facts& assumed, const Facts& actual) {
    const auto are_alike = [](const DimFacts& x, const DimFacts& y) {
        return x.is_one == y.is_one && x.bucket == y.bucket;
    };
    const auto lie_alike = [](const OperandFacts& x, const OperandFacts& y) {
        return x.contiguous_axes == y.contiguous_axes && x.is_streamed == y.is_streamed;
    };
    return holds(assumed, actual) && std::ranges::equal(assumed.dims, actual.dims, are_alike) &&
           std::ranges::equal(assumed.operands, actual.operands, lie_alike);
}

Facts without_numbers(Facts facts) {
    for (DimFacts& d : facts.dims) d = {};
    for (OperandFacts& o : facts.operands) {
        if (!o.is_streamed) o.aligned_log2 = 0;
    }
    return facts;
}

std::string to_string(const Kernel& kernel, const Facts& facts) {
    constexpr std::string_view buckets[] = {"tiny", "small", "large"};
    std::string text;
    for (std::size_t i = 0; i < facts.dims.size(); ++i) {
        const DimFacts& d = facts.dims[i];
        if (i) text += ", ";
        text += (i < kernel.dims.size() ? kernel.dims[i].name : "?") + ": ";
        if (d.is_one) {
            text += '1';
            continue;
        }
        text += "x" + std::to_string(1 << d.divisible_log2) + ' ';
        text += buckets[static_cast<int>(d.bucket)];
    }
    for (std::size_t i = 0; i < facts.operands.size(); ++i) {
        const OperandFacts& o = facts.operands[i];
        if (!text.empty()) text += "; ";
        text += (i < kernel.buffers.size() ? kernel.buffers[i].name : "?") + ": ";
        text += to_string(o.dtype);
        text += '[' + std::to_string(o.rank) + "] contiguous " + std::to_string(o.contiguous_axes) +
                " align " + std::to_string(1 << o.aligned_log2);
        if (o.is_streamed) text += " streamed";
    }
    return text;
}

}  // namespace quern::ir
