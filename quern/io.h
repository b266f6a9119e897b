#pragma once

// Files of tensors. What every reader and writer here shares:
//
// Readers check the whole of what a file says about itself before they allocate, so a truncated or
// lying file costs no memory. They refuse bytes after the end of the format (png excepted, where
// libpng stops at the last chunk), tensors of more than 64 axes, and files that are not regular.
// What they give is in row-major order on the default device; a byte of a bool that is not zero
// reads as true.
//
// Writers take tensors with any strides, put the file beside its place and rename it, so that an
// error leaves what was there before. The same tensors give the same bytes.
//
// Errors of readers are FileError and name the file, the tensor and the field:
// `[load_safetensors] model.safetensors: tensor 'a.b': data_offsets: expected ..., got ...`.
//
// Functions on memory (`parse_*`, `to_*`) do the same work; `name` stands for the file in
// messages.
//
// Thread safety: every function may be called from any thread.

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "quern/tensor.h"

namespace quern {

/// Tensors by name, as npz and safetensors files hold them.
using TensorSet = std::map<std::string, Tensor>;

/// The `__metadata__` of a safetensors file: text by name.
using FileMetadata = std::map<std::string, std::string>;

/// How much a reader may allocate.
struct LoadOptions {
    /// A compressed file (npz, png) may expand to this many times its size, or to 256 MiB if that
    /// is more. Larger tensors are refused before they are allocated. Deflate itself ends at 1032.
    std::uint32_t max_expansion = 100;
};

/// Reads a NumPy array, format versions 1.0, 2.0 and 3.0: bool, integers of 8 to 64 bits, floats of
/// 16 to 64 bits, in either byte order and in C or Fortran order.
/// Throws FileError on arrays of objects, strings, records, dates and complex numbers.
Tensor load_npy(const std::string& path);
Tensor parse_npy(std::span<const std::byte> bytes, std::string_view name);

/// Writes a NumPy array, version 1.0, little-endian, C order. Throws DTypeError on bfloat16 and
/// float8, which NumPy has no type for, FileError if the file cannot be written.
void save_npy(const std::string& path, const Tensor& tensor);
std::vector<std::byte> to_npy(const Tensor& tensor);

/// How an archive is written.
struct NpzOptions {
    /// Deflates every array; otherwise they are stored.
    bool compress = false;
};

/// Reads a zip archive of NumPy arrays, stored or deflated. The key is the entry's name without
/// ".npy"; it is never used as a path. Throws FileError on entries that overlap, share a name, are
/// encrypted, are no arrays, or fail their checksum.
TensorSet load_npz(const std::string& path, const LoadOptions& options = {});
TensorSet parse_npz(std::span<const std::byte> bytes, std::string_view name,
                    const LoadOptions& options = {});

/// Writes a zip archive that numpy.load reads, with zip64 records where sizes need them.
/// Throws DTypeError as save_npy, ValueError on a name that is empty, longer than 4096 bytes, not
/// UTF-8 or contains a NUL.
void save_npz(const std::string& path, const TensorSet& set, const NpzOptions& options = {});
std::vector<std::byte> to_npz(const TensorSet& set, const NpzOptions& options = {});

/// Reads a safetensors file. Offsets must cover the data with no hole and no overlap; names and
/// fields must be unique. At most 100,000,000 bytes of header, 262,144 tensors
/// and as many texts. `metadata`, if given, receives `__metadata__`. Throws FileError.
/// Source: huggingface/safetensors, README, "Format".
TensorSet load_safetensors(const std::string& path, FileMetadata* metadata = nullptr);
TensorSet parse_safetensors(std::span<const std::byte> bytes, std::string_view name,
                            FileMetadata* metadata = nullptr);

/// Writes a safetensors file: tensors by falling element size, then by name, so that each is
/// aligned; the header padded with spaces to 8 bytes. Every dtype can be written.
/// Throws ValueError on names as save_npz does, and on the name "__metadata__".
void save_safetensors(const std::string& path, const TensorSet& set,
                      const FileMetadata& metadata = {});
std::vector<std::byte> to_safetensors(const TensorSet& set, const FileMetadata& metadata = {});

/// Reads an image as uint8 [H, W, C]: C is 1 for grey, 2 for grey and alpha, 3 for RGB, 4 for RGBA.
/// A palette becomes RGB, a transparent colour becomes alpha, samples of 1, 2 and 4 bits scale to 0
/// to 255, those of 16 bits round to 8. Gamma and colour profiles are not applied. Throws
/// FileError.
Tensor load_png(const std::string& path, const LoadOptions& options = {});
Tensor parse_png(std::span<const std::byte> bytes, std::string_view name,
                 const LoadOptions& options = {});

/// Writes uint8 [H, W, C], C from 1 to 4 as in load_png, H and W from 1 to 1,000,000, below 4 GiB.
/// Throws DTypeError, ShapeError.
void save_png(const std::string& path, const Tensor& tensor);
std::vector<std::byte> to_png(const Tensor& tensor);

/// Reads by the ending of the name, in any case: .npy and .png give a tensor, .npz and .safetensors
/// a set. Throws ValueError on another ending.
std::variant<Tensor, TensorSet> load(const std::string& path, const LoadOptions& options = {});

/// Writes by the ending of the name. Throws ValueError if the ending is unknown or holds the other
/// kind: one tensor goes to .npy or .png, a set to .npz or .safetensors.
void save(const std::string& path, const Tensor& tensor);
void save(const std::string& path, const TensorSet& set);

}  // namespace quern
