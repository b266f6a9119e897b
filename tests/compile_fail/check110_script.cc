// expect: expected one compute
#include "quern/static_kernel.h"

const auto kernel = QUERN_KERNEL("let a = 1");
