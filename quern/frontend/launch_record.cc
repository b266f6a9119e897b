#include "quern/frontend/launch_record.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <utility>

#include "quern/frontend/fused.h"
#include "quern/runtime/storage.h"
#include "quern/support/check.h"
#include "quern/support/threads.h"
#include "quern/threads.h"

namespace quern::frontend {
namespace {

struct Kept {
    std::vector<std::uint64_t> key;
    LaunchRecord record;
};

/// Two places for each hash, the newer record first. Thread-safe.
class Records {
public:
    std::shared_ptr<const Kept> find(const LaunchKey& key) {
        const auto words = key.words();
        const Lock lock(mutex_);
        for (const auto& kept : places_[key.hash() % places_.size()]) {
            if (kept &&
                std::equal(words.begin(), words.end(), kept->key.begin(), kept->key.end())) {
                return kept;
            }
        }
        return nullptr;
    }

    void add(std::uint64_t hash, std::shared_ptr<const Kept> kept, std::uint64_t generation) {
        std::shared_ptr<const Kept> oldest;  // released after the lock
        const Lock lock(mutex_);
        if (generation != generation_.load()) return;
        auto& place = places_[hash % places_.size()];
        oldest = std::exchange(place[1], std::exchange(place[0], std::move(kept)));
    }

    void clear() {
        decltype(places_) all;  // released after the lock
        const Lock lock(mutex_);
        std::swap(all, places_);
        generation_.fetch_add(1);
    }

    std::uint64_t generation() const { return generation_.load(); }

private:
    Mutex mutex_;
    std::atomic<std::uint64_t> generation_{0};
    std::array<std::array<std::shared_ptr<const Kept>, 2>, 512> places_;
};

/// Never destroyed: destructors of the program's static objects may still launch.
Records& records() {
    static Records& instance = *new Records;
    return instance;
}

}  // namespace

LaunchKey::LaunchKey(const lang::Source& source, lang::NodeId compute, const Device& device,
                     bool pedantic, Numerics numerics) {
    add(source.serial);
    add(std::uint64_t(compute) << 32 | std::uint64_t(num_threads()));
    add(std::uint64_t(numerics) << 1 | std::uint64_t(pedantic));
    add(device.id());
}

void LaunchKey::add(const Tensor& operand) {
    add(std::uint64_t(operand.dtype()) << 32 | operand.shape().size());
    for (const std::int64_t extent : operand.shape()) add(std::uint64_t(extent));
    for (const std::int64_t stride : operand.strides()) add(std::uint64_t(stride));
    operands_.push_back(&operand);
}

void LaunchKey::add(std::string_view name, const Number& argument) {
    // No operand begins with it: words of an argument are not those of a call with more operands.
    constexpr std::uint64_t kArgument = ~std::uint64_t{0};
    add(kArgument);
    add(name);
    add(std::uint64_t(argument.index()));
    if (const auto* i = std::get_if<std::int64_t>(&argument)) add(std::uint64_t(*i));
    if (const auto* d = std::get_if<double>(&argument)) add(std::bit_cast<std::uint64_t>(*d));
    if (const auto* b = std::get_if<bool>(&argument)) add(std::uint64_t(*b));
}

void LaunchKey::add(const FusedOperand& operand) {
    const LaunchRequest& by = *operand.by;
    add(std::uint64_t(operand.operand));
    add(by.source->serial);
    add(std::uint64_t(by.compute) << 32 | by.operands.size());
    add(std::uint64_t(by.arguments.size()));
    for (const auto& [name, number] : by.arguments) add(name, number);
    add(std::uint64_t(by.options.then.size()));
    for (const semantics::Piped& function : by.options.then) add(function);
    add(std::uint64_t(by.options.fused.size()));
    for (const FusedOperand& fused : by.options.fused) add(fused);
}

void LaunchKey::add(std::string_view text) {
    add(std::uint64_t(text.size()));
    for (std::size_t at = 0; at < text.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data() + at, std::min(sizeof(word), text.size() - at));
        add(word);
    }
}

std::uint64_t LaunchKey::hash() const {
    const auto list = words();
    std::uint64_t h = list.size();
    for (const std::uint64_t word : list) {
        h = (h ^ word) * 0x9e3779b97f4a7c15ull;
        h ^= h >> 32;
    }
    return h;
}

Tensor new_result(const LaunchRecord& record) {
    return record.is_cleared ? Tensor(record.shape, record.dtype, record.device)
                             : Tensor::empty(record.shape, record.dtype, record.device);
}

namespace {

bool run(const LaunchRecord& record, std::span<const Tensor* const> operands, Tensor& result,
         const Progress& progress) {
    LaunchList<void*> addresses;
    for (const Tensor* operand : operands) {
        // Operands are never written.
        addresses.push_back(const_cast<void*>(operand->data()));
    }
    addresses.push_back(result.data());
    return record.kernel->run(record.launch, addresses, progress);
}

/// Poisons a result unless it is kept: also where an error leaves it half-written.
class Written {
public:
    explicit Written(Tensor& result) : result_(result) {}
    ~Written() {
        if (!is_kept_) poison(result_);
    }
    Written(const Written&) = delete;
    Written& operator=(const Written&) = delete;
    void keep() { is_kept_ = true; }

private:
    Tensor& result_;
    bool is_kept_ = false;
};

}  // namespace

std::optional<Tensor> launch_again(const LaunchKey& key, const Progress& progress) {
    const auto kept = records().find(key);
    if (!kept) return std::nullopt;
    Tensor result = new_result(kept->record);
    if (!run(kept->record, key.operands(), result, progress)) return std::nullopt;
    return result;
}

bool launch_again_into(const LaunchKey& key, Tensor& result) {
    const auto kept = records().find(key);
    if (!kept) return false;
    const LaunchRecord& record = kept->record;
    // Code that streams knows where results begin.
    const bool is_aligned =
        reinterpret_cast<std::uintptr_t>(result.data()) % Storage::kAlignment == 0;
    const bool fits = result.dtype() == record.dtype && result.shape() == record.shape &&
                      result.device() == record.device && result.is_contiguous() &&
                      (is_aligned || !record.kernel->is_streamed());
    if (!fits) return false;
    Written written(result);
    if (record.is_cleared && result.bytes() > 0) std::memset(result.data(), 0, result.bytes());
    if (!run(record, key.operands(), result, {})) return false;
    written.keep();
    return true;
}

void poison(Tensor& result) {
    if (result.bytes() == 0) return;
    std::memset(result.data(), result.dtype() == DType::Bool ? 1 : 0xFF, result.bytes());
}

void forget_launches() { records().clear(); }

std::uint64_t memory_generation() { return records().generation(); }

void remember(const LaunchKey& key, LaunchRecord record, std::uint64_t generation) {
    const auto words = key.words();
    records().add(
        key.hash(),
        std::make_shared<const Kept>(Kept{{words.begin(), words.end()}, std::move(record)}),
        generation);
}

}  // namespace quern::frontend
