// PyTorch in a process beside this one, called when asked, so that both are timed in turn.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "quern/io.h"
#include "quern/tensor.h"

namespace quern::bench {

class TorchPeer {
public:
    /// `name` is one of those in torch_peer.py.
    TorchPeer(const std::string& name, const std::vector<Tensor>& operands, int threads)
        : folder_(std::filesystem::temp_directory_path() /
                  ("quern_bench_torch" + std::to_string(getpid()))) {
        // A peer that ended is seen by what it does not answer.
        std::signal(SIGPIPE, SIG_IGN);
        std::filesystem::create_directories(folder_);
        std::vector<std::string> words = {"python3", QUERN_SOURCE_DIR "/bench/torch_peer.py", name,
                                          std::to_string(threads), result_file()};
        for (const Tensor& operand : operands) {
            words.push_back((folder_ / (std::to_string(words.size()) + ".npy")).string());
            save_npy(words.back(), operand);
        }
        int asked[2], answered[2];
        if (pipe(asked) != 0 || pipe(answered) != 0) return;
        std::vector<char*> arguments;
        for (std::string& word : words) arguments.push_back(word.data());
        arguments.push_back(nullptr);
        process_ = fork();
        if (process_ == 0) {
            dup2(asked[0], 0);
            dup2(answered[1], 1);
            for (const int each : {asked[0], asked[1], answered[0], answered[1]}) close(each);
            // Its results take memory that was freed by those before, as ours do.
            setenv("MALLOC_MMAP_THRESHOLD_", "4294967296", 1);
            setenv("MALLOC_TRIM_THRESHOLD_", "4294967296", 1);
            execv("/usr/bin/python3", arguments.data());
            _exit(kAbsent);
        }
        close(asked[0]);
        close(answered[1]);
        ask_ = fdopen(asked[1], "w");
        answer_ = fdopen(answered[0], "r");
        char word[8] = {};
        is_ready_ = answer_ && std::fscanf(answer_, "%7s", word) == 1;
    }

    ~TorchPeer() {
        finish();
        std::filesystem::remove_all(folder_);
    }

    TorchPeer(const TorchPeer&) = delete;
    TorchPeer& operator=(const TorchPeer&) = delete;

    bool is_ready() const { return is_ready_; }

    /// Whether it ended as it does where there is no PyTorch.
    bool is_absent() {
        finish();
        return WIFEXITED(status_) && WEXITSTATUS(status_) == kAbsent;
    }

    /// One run: its seconds, or a time that nothing exceeds if it fails.
    double run() {
        double seconds = 1e30;
        if (std::fputs("run\n", ask_) < 0 || std::fflush(ask_) != 0) return 1e30;
        return std::fscanf(answer_, "%lf", &seconds) == 1 ? seconds : 1e30;
    }

    /// What the last run made, once no more are asked for; none if it failed.
    std::optional<Tensor> result() {
        finish();
        if (!std::filesystem::exists(result_file())) return std::nullopt;
        return load_npy(result_file());
    }

private:
    static constexpr int kAbsent = 3;

    std::string result_file() const { return (folder_ / "result.npy").string(); }

    void finish() {
        if (ask_) std::fclose(ask_);
        if (answer_) std::fclose(answer_);
        ask_ = answer_ = nullptr;
        if (process_ > 0) waitpid(process_, &status_, 0);
        process_ = 0;
    }

    std::filesystem::path folder_;
    pid_t process_ = 0;
    int status_ = 0;
    FILE* ask_ = nullptr;
    FILE* answer_ = nullptr;
    bool is_ready_ = false;
};

}  // namespace quern::bench
