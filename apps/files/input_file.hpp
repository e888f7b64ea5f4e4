// The bytes of a file in memory. Reading, not mapping: a file that shrinks meanwhile is an error, not a
// SIGBUS.
#pragma once

#include <memory>
#include <string>

#include "files/elements.hpp"

namespace runmax::files {

class FileBytes {
 public:
  FileBytes(std::unique_ptr<std::byte[]> data, std::size_t size) : data_(std::move(data)), size_(size) {}
  Bytes bytes() const { return {data_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> data_;
  std::size_t size_;
};

// What no array on this machine can exceed. A sparse file of terabytes is refused by it, not by the kernel's
// out-of-memory killer.
std::uint64_t physical_memory_bytes();

// Reads a regular file. An error says what is wrong, without the file's name.
Result<FileBytes> read_file(const std::string& path);

}  // namespace runmax::files
