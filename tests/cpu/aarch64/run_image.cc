// Runs a compiled kernel that was made elsewhere: aarch64's code under an emulator, beside tests
// that run on another processor. tests/cpu/aarch64_test.cc writes the job.
//
//     run_image JOB > OUTPUT_BYTES
//
// JOB is 64-bit little-endian words and bytes: the object; for each stage the name of its function,
// its words, its grid points; the bytes of each thread's arrays; for each buffer its bytes; which
// buffer is the output. Ends with 1 if an assertion of the kernel failed.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "quern/runtime/machine_code.h"

namespace {

constexpr std::size_t kAlignment = 64;

class Job {
public:
    explicit Job(const char* path) {
        std::ifstream file(path, std::ios::binary);
        bytes_.assign(std::istreambuf_iterator<char>(file), {});
    }
    std::uint64_t word() {
        std::uint64_t value = 0;
        std::memcpy(&value, bytes(sizeof(value)), sizeof(value));
        return value;
    }
    const char* bytes(std::size_t count) {
        const char* from = bytes_.data() + at_;
        at_ += count;
        return from;
    }

private:
    std::vector<char> bytes_;
    std::size_t at_ = 0;
};

struct Stage {
    std::string function;
    std::vector<std::uint64_t> words;
    std::int64_t points = 1;
};

struct Freed {
    void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Freed>;

Memory allocated(std::size_t bytes) {
    return Memory(std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment));
}

int run(Job& job) {
    const std::size_t object_size = job.word();
    const char* object = job.bytes(object_size);
    const auto code =
        quern::MachineCode::load({reinterpret_cast<const std::byte*>(object), object_size});
    std::vector<Stage> stages(job.word());
    for (Stage& stage : stages) {
        const std::size_t length = job.word();
        stage.function.assign(job.bytes(length), length);
        stage.words.resize(job.word());
        for (std::uint64_t& word : stage.words) word = job.word();
        stage.points = std::int64_t(job.word());
    }
    const Memory scratch = allocated(job.word());
    std::vector<Memory> memories;
    std::vector<void*> buffers;
    std::vector<std::size_t> sizes(job.word());
    for (std::size_t& size : sizes) {
        size = job.word();
        memories.push_back(allocated(size));
        buffers.push_back(memories.back().get());
        std::memcpy(buffers.back(), job.bytes(size), size);
    }
    const std::size_t output = job.word();
    using Entry = int(const std::uint64_t*, void* const*, std::int64_t, std::int64_t, void*);
    for (const Stage& stage : stages) {
        auto* entry = reinterpret_cast<Entry*>(const_cast<void*>(code->find(stage.function)));
        if (entry(stage.words.data(), buffers.data(), 0, stage.points, scratch.get()) != 0)
            return 1;
    }
    std::fwrite(buffers[output], 1, sizes[output], stdout);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) return 2;
    try {
        Job job(argv[1]);
        return run(job);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 2;
    }
}
