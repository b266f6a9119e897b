#pragma once

// Every function of this folder, and plain numbers as their values. The bounds of their errors are
// in docs/math.md.

#include "quern/math/error_function.h"
#include "quern/math/exponential.h"
#include "quern/math/hyperbolic.h"
#include "quern/math/inverse_hyperbolic.h"
#include "quern/math/inverse_trigonometric.h"
#include "quern/math/logarithm.h"
#include "quern/math/native.h"
#include "quern/math/power.h"
#include "quern/math/trigonometric.h"
