#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace quern {

/// Compiled kernels as files that processes share, one for each key.
///
/// An entry appears complete or not at all, and says its key, sizes and checksum. What another user
/// could have written is not read: the folder and its files must belong to this user, and nobody
/// else may write to them. An entry that is damaged, foreign or not readable is left out with one
/// warning, and written anew. Thread-safe.
class DiskCache {
public:
    /// The folder is made when the first entry is written. Above `most_bytes` in all the entries
    /// that were not used for longest are removed.
    DiskCache(std::string folder, std::uint64_t most_bytes);

    /// That of the process, or null if it has none: in the folder QUERN_CACHE, else in quern of
    /// XDG_CACHE_HOME, else in ~/.cache/quern, with at most QUERN_CACHE_BYTES bytes (512 MiB).
    /// QUERN_CACHE=off is none.
    static const DiskCache* of_process();

    /// What `write` got for this key, or none.
    std::optional<std::vector<std::byte>> read(std::string_view key) const;

    /// Keeps a value, or warns why not. Of a folder that is of no use there is one warning, for
    /// everything that is not kept.
    void write(std::string_view key, std::span<const std::byte> value) const;

    /// Removes what is kept for a key, if anything is.
    void remove(std::string_view key) const;

    /// Says that the value of a key is of no use, as if it were damaged.
    void refuse(std::string_view key, std::string_view why) const;

    /// The file of a key.
    std::string path_of(std::string_view key) const;

private:
    void say_not_kept(int error) const;

    std::string folder_;
    std::uint64_t most_bytes_;
    mutable std::atomic<bool> has_warned_ = false;
};

}  // namespace quern
