#include "quern/numerics.h"

#include <atomic>
#include <cstdlib>
#include <string>

#include "quern/error.h"
#include "quern/support/check.h"

namespace quern {
namespace {

constexpr Numerics kAll[] = {Numerics::Strict, Numerics::Reproducible, Numerics::Fast};
constexpr int kNotChosen = -1;
std::atomic<int> chosen{kNotChosen};

Numerics from_environment() {
    const char* name = std::getenv("QUERN_NUMERICS");
    if (name == nullptr || *name == '\0') return Numerics::Strict;
    if (const auto numerics = numerics_named(name)) return *numerics;
    raise(
        ValueError("[numerics] expected QUERN_NUMERICS to be strict, reproducible or fast, got '" +
                   std::string(name) + "'"));
}

}  // namespace

const char* to_string(Numerics numerics) noexcept {
    switch (numerics) {
        case Numerics::Strict:
            return "strict";
        case Numerics::Reproducible:
            return "reproducible";
        case Numerics::Fast:
            return "fast";
    }
    return "strict";
}

std::optional<Numerics> numerics_named(std::string_view name) noexcept {
    for (const Numerics numerics : kAll) {
        if (name == to_string(numerics)) return numerics;
    }
    return std::nullopt;
}

Numerics default_numerics() {
    int value = chosen.load();
    if (value == kNotChosen) {
        // Every launch asks, and looking through the environment takes longer than a small one.
        const int named = static_cast<int>(from_environment());
        if (chosen.compare_exchange_strong(value, named)) value = named;
    }
    return static_cast<Numerics>(value);
}

void set_default_numerics(Numerics numerics) noexcept { chosen.store(static_cast<int>(numerics)); }

}  // namespace quern
