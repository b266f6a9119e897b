#pragma once

#ifdef __linux__
#include <sys/resource.h>

#include <cstddef>
#include <fstream>

namespace quern {

/// Leaves the process so many bytes of addresses more than it has.
inline void leave_addresses(std::size_t bytes) {
    std::ifstream of_process("/proc/self/statm");
    std::size_t pages = 0;
    of_process >> pages;
    rlimit limit;
    ::getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * 4096 + bytes;
    ::setrlimit(RLIMIT_AS, &limit);
}

}  // namespace quern
#endif
