#include "quern/script/value.h"

#include <fmt/format.h>

#include <cmath>
#include <set>

#include "quern/script/numbers.h"
#include "quern/script/waiting.h"

namespace quern::script {
namespace {

std::string joined(std::string_view prefix, std::string_view component) {
    std::string key(prefix);
    if (!key.empty()) key += '.';
    return key += component;
}

std::string enclosed(const std::vector<Value>& elements, char open, char close) {
    std::string text(1, open);
    for (const Value& element : elements) {
        if (text.size() > 1) text += ", ";
        text += script::to_string(element);
    }
    return text += close;
}

}  // namespace

std::string SetView::key(std::string_view component) const { return joined(prefix, component); }

bool SetView::contains_below(std::string_view key) const {
    if (key.empty()) return true;
    const std::string begin = std::string(key) + '.';
    const auto found = set->lower_bound(begin);
    return found != set->end() && found->first.starts_with(begin);
}

std::vector<std::string> SetView::components_below(std::string_view key) const {
    const std::string begin = key.empty() ? std::string() : std::string(key) + '.';
    // Keys that share a component are not always neighbours: "b", "b-x", "b.c".
    std::set<std::string> components;
    for (auto at = set->lower_bound(begin); at != set->end() && at->first.starts_with(begin);
         ++at) {
        const std::string rest = at->first.substr(begin.size());
        components.insert(rest.substr(0, rest.find('.')));
    }
    return {components.begin(), components.end()};
}

TensorSet SetView::tensors() const {
    if (prefix.empty()) return *set;
    TensorSet tensors;
    const std::string begin = prefix + '.';
    for (auto at = set->lower_bound(begin); at != set->end() && at->first.starts_with(begin);
         ++at) {
        tensors.emplace(at->first.substr(begin.size()), at->second);
    }
    return tensors;
}

std::string describe(const Value& value) {
    struct Visitor {
        std::string operator()(std::monostate) const { return "nothing"; }
        std::string operator()(bool) const { return "a truth value"; }
        std::string operator()(std::int64_t) const { return "an integer"; }
        std::string operator()(double) const { return "a float"; }
        std::string operator()(const std::string&) const { return "a string"; }
        std::string operator()(DType) const { return "a dtype"; }
        std::string operator()(const Tensor& tensor) const {
            if (!tensor.is_alive()) return "a tensor whose memory was taken back";
            return fmt::format("a tensor {} {}", quern::to_string(tensor.dtype()),
                               quern::to_string(tensor.shape()));
        }
        std::string operator()(const SetView&) const { return "a set of tensors"; }
        std::string operator()(const List& list) const {
            return fmt::format("a list of {}", list.elements.size());
        }
        std::string operator()(const Tuple& tuple) const {
            return fmt::format("a tuple of {}", tuple.elements.size());
        }
        std::string operator()(const DeviceInfo&) const { return "a device"; }
        std::string operator()(const Future<Value>&) const { return "a future"; }
        std::string operator()(const MemoryPool&) const { return "a memory pool"; }
        std::string operator()(const std::shared_ptr<Waiting>& waiting) const {
            return fmt::format("a tensor {} {}", quern::to_string(waiting->info.dtype),
                               quern::to_string(waiting->info.shape));
        }
    };
    return std::visit(Visitor(), value.data);
}

std::string to_string(const Value& value) {
    struct Visitor {
        std::string operator()(std::monostate) const { return "nothing"; }
        std::string operator()(bool truth) const { return truth ? "true" : "false"; }
        std::string operator()(std::int64_t number) const { return fmt::format("{}", number); }
        std::string operator()(double number) const {
            // As tensors are printed: the sign of a NaN says nothing.
            if (std::isnan(number)) return "nan";
            std::string text = fmt::format("{}", number);
            if (text.find_first_not_of("-0123456789") == std::string::npos) text += ".0";
            return text;
        }
        std::string operator()(const std::string& text) const { return '"' + text + '"'; }
        std::string operator()(DType dtype) const { return std::string(quern::to_string(dtype)); }
        std::string operator()(const Tensor& tensor) const {
            return tensor.is_alive() ? quern::to_string(tensor)
                                     : "tensor whose memory was taken back";
        }
        std::string operator()(const SetView& view) const {
            std::string text = "set of tensors";
            for (const auto& [key, tensor] : view.tensors()) {
                text += fmt::format("\n  {}: {} {}", key, quern::to_string(tensor.dtype()),
                                    quern::to_string(tensor.shape()));
            }
            return text;
        }
        std::string operator()(const List& list) const { return enclosed(list.elements, '[', ']'); }
        std::string operator()(const Tuple& tuple) const {
            return enclosed(tuple.elements, '(', ')');
        }
        std::string operator()(const DeviceInfo& device) const { return device.id; }
        std::string operator()(const Future<Value>&) const { return "future"; }
        std::string operator()(const MemoryPool& pool) const {
            return fmt::format("memory pool of {} bytes on {}", pool.counters().size,
                               pool.device().id());
        }
        std::string operator()(const std::shared_ptr<Waiting>&) const {
            return "tensor that was not computed";
        }
    };
    return std::visit(Visitor(), value.data);
}

std::optional<Value> parse_number(std::string_view text) {
    if (text == "true") return Value(true);
    if (text == "false") return Value(false);
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) text.remove_prefix(1);
    // The one integer whose negative is none.
    if (negative && text == "9223372036854775808") return Value(INT64_MIN);
    std::optional<Value> value = literal(text);
    if (!value || !negative) return value;
    if (const auto* integer = value->as<std::int64_t>()) return Value(-*integer);
    return Value(-*value->as<double>());
}

}  // namespace quern::script
