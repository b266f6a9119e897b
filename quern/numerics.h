#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace quern {

/// How devices that compile kernels round. The interpreter is always Reproducible. In every mode
/// casts are kept, and exp, sin, ... are within 2 ulp of exact.
enum class Numerics : std::uint8_t {
    /// Each operation is rounded as it is written. The order of a sum is the schedule's, and its
    /// products are fused with it.
    Strict,

    /// The interpreter's bits, with any instructions and any number of threads: sums along the
    /// language's fixed trees (docs/language.md, "Reductions"), products rounded.
    Reproducible,

    /// Strict, but products may be fused with sums, sums and products taken in another order, and
    /// x / y become x times 1 / y; 1 + tanh(x) becomes 2 / (1 + exp(-2 x)). What is infinite or NaN
    /// in between may end up finite, and what is finite infinite or NaN where a product taken first
    /// overflows or 1 / y is infinite.
    Fast,
};

/// "strict", "reproducible", "fast".
const char* to_string(Numerics numerics) noexcept;

/// The mode of that name, or none.
std::optional<Numerics> numerics_named(std::string_view name) noexcept;

/// What kernels run in that say no mode: what set_default_numerics() said, else QUERN_NUMERICS,
/// else Strict. Throws ValueError if QUERN_NUMERICS names none.
Numerics default_numerics();

/// Sets it for the process.
void set_default_numerics(Numerics numerics) noexcept;

}  // namespace quern
