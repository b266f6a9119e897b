#include "quern/support/processor.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>

namespace quern {

std::size_t largest_cache() noexcept {
    static const std::size_t bytes = [] {
        // What sysconf says is, in virtual machines, that of all processors of the host together.
        constexpr const char* kFolder = "/sys/devices/system/cpu/cpu0/cache/index";
        constexpr int kCaches = 8;
        std::size_t most = 0;
        for (int i = 0; i < kCaches; ++i) {
            std::ifstream file(kFolder + std::to_string(i) + "/size");
            std::string text;
            if (!(file >> text)) continue;
            char* unit = nullptr;
            std::size_t size = std::strtoul(text.c_str(), &unit, 10);
            if (*unit == 'K') size <<= 10;
            if (*unit == 'M') size <<= 20;
            most = std::max(most, size);
        }
        constexpr std::size_t kUsual = std::size_t{32} << 20;
        return most > 0 ? most : kUsual;
    }();
    return bytes;
}

}  // namespace quern
