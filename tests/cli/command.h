#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "quern/io.h"
#include "quern/tensor.h"

// Runs the built command `quern`.

namespace quern::cli {

/// The command's path: QUERN_TOOL, or the one that was built with the tests.
inline std::string command_path() {
    if (const char* path = std::getenv("QUERN_TOOL")) return path;
#ifdef QUERN_COMMAND
    return QUERN_COMMAND;
#else
    return "quern";
#endif
}

inline std::string read_file(const std::filesystem::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

/// What one call of the command gave.
struct Outcome {
    int status = -1;
    std::string out;
    std::string err;
};

/// Variables of the environment, until the end of a test.
class Environment {
public:
    void set(const char* name, const std::string& value) {
        const char* const before = std::getenv(name);
        before_.emplace_back(name, before ? std::optional<std::string>(before) : std::nullopt);
        ::setenv(name, value.c_str(), 1);
    }
    Environment() = default;
    ~Environment() {
        for (auto each = before_.rbegin(); each != before_.rend(); ++each) {
            const auto& [name, value] = *each;
            value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
        }
    }
    Environment(const Environment&) = delete;
    Environment& operator=(const Environment&) = delete;

private:
    std::vector<std::pair<const char*, std::optional<std::string>>> before_;
};

/// A folder that goes with the test.
class Folder {
public:
    Folder() {
        std::string pattern =
            (std::filesystem::temp_directory_path() / "quern-cli-XXXXXX").string();
        path_ = mkdtemp(pattern.data());
    }
    ~Folder() { std::filesystem::remove_all(path_); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;

    std::string operator/(const std::string& name) const { return (path_ / name).string(); }

    std::string write(const std::string& name, const std::string& text) const {
        std::ofstream(path_ / name, std::ios::binary) << text;
        return *this / name;
    }
    std::string write(const std::string& name, const Tensor& tensor) const {
        save(*this / name, tensor);
        return *this / name;
    }

    /// Names of the files in it, hidden ones too.
    std::vector<std::string> files() const {
        std::vector<std::string> names;
        for (const auto& entry : std::filesystem::directory_iterator(path_)) {
            names.push_back(entry.path().filename().string());
        }
        std::sort(names.begin(), names.end());
        return names;
    }

private:
    std::filesystem::path path_;
};

/// Starts the command with its standard output and error on these files and returns its process.
inline pid_t start(const std::vector<std::string>& arguments, int out, int err) {
    std::vector<std::string> texts = arguments;
    texts.insert(texts.begin(), command_path());
    std::vector<char*> argv;
    for (std::string& text : texts) argv.push_back(text.data());
    argv.push_back(nullptr);
    const pid_t child = fork();
    if (child == 0) {
        // A shell that starts tests in the background has it ignored.
        std::signal(SIGINT, SIG_DFL);
        dup2(out, STDOUT_FILENO);
        dup2(err, STDERR_FILENO);
        execvp(argv[0], argv.data());
        _exit(127);
    }
    return child;
}

inline Outcome run(const std::vector<std::string>& arguments) {
    FILE* const out = std::tmpfile();
    FILE* const err = std::tmpfile();
    const pid_t child = start(arguments, fileno(out), fileno(err));
    int status = 0;
    waitpid(child, &status, 0);
    const auto text = [](FILE* file) {
        std::rewind(file);
        std::string all;
        for (int c = std::fgetc(file); c != EOF; c = std::fgetc(file)) all += char(c);
        std::fclose(file);
        return all;
    };
    Outcome outcome;
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = text(out);
    outcome.err = text(err);
    return outcome;
}

}  // namespace quern::cli
