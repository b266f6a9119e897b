#include "progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>

namespace quern::command {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

std::atomic<bool> shown = false;

struct Work {
    std::string kernel;
    double part = 0;
    Clock::time_point begin;
    Clock::time_point drawn;
};

bool is_terminal() {
    static const bool terminal = isatty(STDERR_FILENO) != 0;
    return terminal;
}

}  // namespace

void show_progress(std::string_view kernel, double part) {
    if (!is_terminal()) return;
    static Work work;
    const Clock::time_point now = Clock::now();
    if (kernel != work.kernel || part < work.part || work.begin == Clock::time_point()) {
        work = {std::string(kernel), part, now, now};
    }
    work.part = part;
    if (part >= 1) return clear_progress();
    if (now - work.begin < 500ms || (shown && now - work.drawn < 100ms)) return;
    work.drawn = now;
    shown = true;
    const std::string line = fmt::format("\r\033[K{} {:.0f} %", kernel, 100 * part);
    std::fputs(line.c_str(), stderr);
    std::fflush(stderr);
}

void clear_progress() {
    if (!shown.exchange(false)) return;
    std::fputs("\r\033[K", stderr);
    std::fflush(stderr);
}

}  // namespace quern::command
