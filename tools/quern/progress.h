#pragma once

#include <string_view>

namespace quern::command {

/// Shows "name 42 %" on standard error if that is a terminal and the kernel has run for half a
/// second. One thread at a time.
void show_progress(std::string_view kernel, double part);

/// Takes the line away.
void clear_progress();

}  // namespace quern::command
