#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "quern/device.h"
#include "quern/dtype.h"
#include "quern/future.h"
#include "quern/io.h"
#include "quern/memory_pool.h"
#include "quern/tensor.h"

// What an expression of a script evaluates to.

namespace quern::script {

struct Value;

/// A tensor whose launch waits until somebody looks at it: waiting.h.
struct Waiting;

/// The tensors of a set whose keys are `prefix` or begin with `prefix` and a dot. An empty prefix
/// is the whole set.
struct SetView {
    std::shared_ptr<const TensorSet> set;
    std::string prefix;

    /// The key of a component below the prefix.
    std::string key(std::string_view component) const;
    bool contains_below(std::string_view key) const;

    /// The components that may follow `key`, each once.
    std::vector<std::string> components_below(std::string_view key) const;

    /// The tensors with the prefix taken off their keys.
    TensorSet tensors() const;
};

struct List {
    std::vector<Value> elements;
};

struct Tuple {
    std::vector<Value> elements;
};

template <class T, class... Alternatives>
inline constexpr bool kIsOneOf = (std::is_same_v<T, Alternatives> || ...);

struct Value {
    std::variant<std::monostate, bool, std::int64_t, double, std::string, DType, Tensor, SetView,
                 List, Tuple, DeviceInfo, Future<Value>, MemoryPool, std::shared_ptr<Waiting>>
        data;

    Value() = default;

    /// Takes the alternatives only: an int or a `const char*` would become another type silently.
    template <class T>
    requires kIsOneOf<T, bool, std::int64_t, double, std::string, DType, Tensor, SetView, List,
                      Tuple, DeviceInfo, Future<Value>, MemoryPool, std::shared_ptr<Waiting>>
    Value(T value) : data(std::move(value)) {}

    template <class T>
    const T* as() const {
        return std::get_if<T>(&data);
    }
    bool is_none() const { return data.index() == 0; }
    bool is_number() const {
        return as<bool>() != nullptr || as<std::int64_t>() != nullptr || as<double>() != nullptr;
    }
};

/// What a message calls the value's type: "a number", "a tensor float32 [2, 3]", "a list".
std::string describe(const Value& value);

/// Prints a value as `quern run` shows it.
std::string to_string(const Value& value);

/// Reads a number as in section 2 of the language with an optional sign, or true or false.
std::optional<Value> parse_number(std::string_view text);

}  // namespace quern::script
