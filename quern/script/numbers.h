#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "quern/lang/diagnostics.h"
#include "quern/lang/syntax.h"
#include "quern/script/value.h"

// Numbers of a script: literals, arithmetic, and kernel functions of numbers. Integers are 64 bits
// and wrap; an integer quotient truncates; an integer beside a float becomes one.

namespace quern::script {

/// Reads an integer, a float or a quantity: "12", "1e-6", "16MB" (bytes, 1024-based), "1000ms"
/// (seconds). Nothing if it is none of these or out of range.
std::optional<Value> literal(std::string_view text);

/// True if a quantity has one of the units, so that only its number can be wrong.
bool has_known_unit(std::string_view quantity);

/// The units that a quantity may have, for messages.
std::string quantity_units();

/// What an operator or a function cannot do with its operands.
struct NumberFault {
    lang::Code code = lang::Code::E0441;
    std::string message;
};

using NumberResult = std::variant<Value, NumberFault>;

NumberResult negate(const Value& operand);
NumberResult combine(lang::Op op, const Value& left, const Value& right);

/// Applies an element-wise kernel function to numbers.
NumberResult apply_function(std::string_view function, std::span<const Value> arguments);

}  // namespace quern::script
