// Records of what a segment of the disk tier holds: appended to a log beside it, each with a
// digest, so that one that was torn or written over ends what is read.
//
//   log       LogHeader, records
//   record    RecordHeader, tokens (int32), extra bytes
//
// Numbers are little-endian, as on all machines that this runs on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lib/cache/prefix/prefix_index.h"

namespace nvllm {

// One content of one cache group, and where in the segment its values begin.
struct DiskRecord {
    int32_t group = 0;
    uint64_t offset = 0;
    BlockKey key;
    BlockKey parent;  // zero: none
    std::vector<int32_t> tokens;
    std::string extra;

    bool operator==(const DiskRecord&) const = default;
};

// `identity`: of all logs that may be read together.
std::string log_header(uint64_t identity);
// Bytes of the header.
constexpr size_t kLogHeaderBytes = 24;
bool is_log_header(std::string_view bytes, uint64_t identity);

void append_record(const DiskRecord& record, std::string& log);

struct ReadRecord {
    DiskRecord record;
    size_t bytes = 0;  // of the log
};
// The record at the beginning; nothing: it is not whole, or is none.
std::optional<ReadRecord> read_record(std::string_view log);

}  // namespace nvllm
