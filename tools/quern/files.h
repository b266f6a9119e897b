#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "quern/script/script.h"

// The NAME=VALUE options of the command and the files behind them.

namespace quern::command {

struct Assignment {
    std::string name;
    std::string value;
};

/// Splits at the first '='. CLI checks have made sure that there is one.
Assignment assignment(const std::string& text);

/// Checks for CLI11: what is wrong with an option's text, or "" if nothing is.
std::string fault_in_file(const std::string& text);
std::string fault_in_number(const std::string& text);
std::string fault_in_shape(const std::string& text);

/// Reads the text of a script, of 64 MiB at most. Throws FileError.
std::string read_script(const std::string& path);

/// Reads tensors or a set of them as the ending of the name says.
script::Value read_value(const std::string& path);

/// Zeros, which take no memory, of the dtype and shape that "f32[2,3]" names.
Tensor zeros(const std::string& text);

/// Throws FileError if a file could not be put at `path` for a reason that is known beforehand.
void expect_writable(const std::string& command, const std::string& path);

/// Where the links of a path lead: the same for all names of one file.
std::string target_of(const std::string& path);

/// Writes every value to its file or none of them: files are staged beside their places and renamed
/// when all have been written. SIGINT and SIGTERM meanwhile remove what was staged and end the
/// command. (Between two renames an error of the file system can still leave the first one done.)
void write_all(const std::vector<std::pair<std::string, const script::Value*>>& outputs,
               const std::vector<std::string>& names);

/// The signal that came while `write_all` worked, or 0.
int interrupting_signal();

}  // namespace quern::command
