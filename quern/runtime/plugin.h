#pragma once

#include <string>

namespace quern {

/// Where a plug-in is: in the folder that QUERN_PLUGINS names, else beside the library or program
/// that holds Quern, in ../lib of it, or where the system looks for the program's libraries. Empty
/// if it is nowhere.
std::string find_plugin(const char* name);

/// Loads the plug-in at `path` and gives its function `symbol`. Null and why if it is none, or made
/// from other sources than this library: `version` names a function that says which.
void* load_plugin(const std::string& path, const char* symbol, const char* version,
                  std::string& why);

}  // namespace quern
