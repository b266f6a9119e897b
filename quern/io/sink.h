#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/support/file.h"

namespace quern::io {

/// Takes the bytes of a file in order.
class Sink {
public:
    virtual ~Sink() = default;
    virtual void write(std::span<const std::byte> bytes) = 0;
    void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
};

class MemorySink final : public Sink {
public:
    using Sink::write;
    void write(std::span<const std::byte> bytes) override {
        bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    }
    std::vector<std::byte> take() { return std::move(bytes_); }

private:
    std::vector<std::byte> bytes_;
};

class FileSink final : public Sink {
public:
    using Sink::write;
    explicit FileSink(const std::string& path) : file_(path) {}
    void write(std::span<const std::byte> bytes) override { file_.write(bytes); }
    void commit() { file_.commit(); }

private:
    AtomicFile file_;
};

/// Writes a file through `body(Sink&)`; the file appears only when all of it is there.
template <class Body>
void write_file(const std::string& path, const Body& body) {
    FileSink sink(path);
    body(sink);
    sink.commit();
}

/// Returns what `body(Sink&)` writes.
template <class Body>
std::vector<std::byte> write_memory(const Body& body) {
    MemorySink sink;
    body(sink);
    return sink.take();
}

}  // namespace quern::io
