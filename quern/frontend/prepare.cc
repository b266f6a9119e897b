#include "quern/frontend/prepare.h"

#include <fmt/format.h>

#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>

#include "quern/error.h"
#include "quern/frontend/fused.h"
#include "quern/frontend/spread.h"
#include "quern/ir/verify.h"
#include "quern/support/check.h"

namespace quern::frontend {

namespace {

/// Everything that decides the CIR, as text.
std::string key_of(const lang::Source& source, lang::NodeId compute,
                   std::span<const OperandInfo> operands, const Arguments& arguments,
                   const LaunchOptions& options) {
    std::string key = fmt::format("{}|{}|", compute, options.pedantic);
    for (const OperandInfo& o : operands) {
        key += fmt::format("{}{},", to_string(o.dtype), o.shape.size());
    }
    for (const auto& [name, number] : arguments) {
        key += fmt::format("|{}:{}", name, number.index());
        if (const auto* i = std::get_if<std::int64_t>(&number)) key += fmt::format("={}", *i);
        if (const auto* b = std::get_if<bool>(&number)) key += fmt::format("={}", *b);
    }
    for (const semantics::Piped& piped : options.then) key += "|>" + piped.name;
    for (const FusedOperand& f : options.fused) {
        const LaunchRequest& by = *f.by;
        const std::string made =
            key_of(*by.source, by.compute, infos_of(by.operands), by.arguments, by.options);
        key += fmt::format("|fused{}:{}:{}", f.operand, made.size(), made);
    }
    if (options.part) key += fmt::format("|part{}", int(options.part->spread));
    key += '|';
    key += source.file;
    key += '\n';
    key += source.text;
    return key;
}

/// The most recently used kernels.
class Cache {
public:
    std::shared_ptr<const Prepared> find(const std::string& key) {
        const std::lock_guard lock(mutex_);
        const auto it = map_.find(key);
        if (it == map_.end()) return nullptr;
        order_.splice(order_.begin(), order_, it->second);
        return it->second->second;
    }

    void add(const std::string& key, std::shared_ptr<const Prepared> prepared) {
        // Made before anything changes, so that a failed allocation leaves list and map agreed.
        std::list<Entry> entry;
        entry.emplace_front(key, std::move(prepared));
        const std::lock_guard lock(mutex_);
        if (!map_.emplace(key, entry.begin()).second) return;
        order_.splice(order_.begin(), entry);
        if (order_.size() <= kCapacity) return;
        map_.erase(order_.back().first);
        order_.pop_back();
    }

private:
    static constexpr std::size_t kCapacity = 256;
    using Entry = std::pair<std::string, std::shared_ptr<const Prepared>>;
    std::mutex mutex_;
    std::list<Entry> order_;
    std::unordered_map<std::string, std::list<Entry>::iterator> map_;
};

Cache& cache() {
    // Never destroyed: work that goes on while a program ends may still launch.
    static Cache& instance = *new Cache;
    return instance;
}

}  // namespace

std::shared_ptr<const Prepared> prepare(const lang::Source& source, lang::NodeId compute,
                                        std::span<const OperandInfo> operands,
                                        const Arguments& arguments, const LaunchOptions& options) {
    const std::string key = key_of(source, compute, operands, arguments, options);
    if (auto found = cache().find(key)) return found;
    if (!options.fused.empty()) {
        auto fused = prepare_fused(source, compute, operands, arguments, options);
        cache().add(key, fused);
        return fused;
    }
    semantics::Request request{source,           compute,      {},   arguments,
                               options.pedantic, options.then, false};
    for (const OperandInfo& o : operands) {
        request.operands.push_back({o.dtype, static_cast<int>(o.shape.size())});
    }
    lang::Diagnostics diagnostics(source);
    auto lowered = semantics::lower(request, {}, diagnostics);
    diagnostics.raise();
    if (options.part) cut_loop(lowered->kernel, options.part->spread);
    auto prepared = verified(std::move(*lowered));
    cache().add(key, prepared);
    return prepared;
}

std::shared_ptr<const Prepared> verified(semantics::Lowered lowered) {
    if (const auto broken = ir::verify(lowered.kernel); !broken.empty()) {
        raise(InternalError(fmt::format("[verify] {}; please report", broken.front())));
    }
    interpret::Program program(lowered.kernel);
    return std::make_shared<const Prepared>(Prepared{std::move(lowered), std::move(program)});
}

}  // namespace quern::frontend
