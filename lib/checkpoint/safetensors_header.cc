// The header of a safetensors file: JSON events into entries, then every rule that ties entries to
// the data.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "kernels/error.h"
#include "lib/checkpoint/quoted.h"
#include "lib/checkpoint/safetensors.h"

static_assert(std::endian::native == std::endian::little,
              "tensor data is read in place, which needs a little-endian machine");

namespace nvllm {
namespace {

constexpr std::array<std::pair<std::string_view, DType>, 15> kDTypes = {{
    {"BOOL", DType::boolean},
    {"U8", DType::u8},
    {"I8", DType::i8},
    {"F8_E4M3", DType::f8_e4m3},
    {"F8_E5M2", DType::f8_e5m2},
    {"U16", DType::u16},
    {"I16", DType::i16},
    {"F16", DType::f16},
    {"BF16", DType::bf16},
    {"U32", DType::u32},
    {"I32", DType::i32},
    {"F32", DType::f32},
    {"U64", DType::u64},
    {"I64", DType::i64},
    {"F64", DType::f64},
}};

std::optional<DType> dtype_from_header(std::string_view name) {
    for (const auto& [known, dtype] : kDTypes) {
        if (known == name) return dtype;
    }
    return std::nullopt;
}

// Receives the header's JSON events. Depth 1 is the header object, depth 2 one tensor or the
// metadata, depth 3 a shape or a pair of offsets; nothing may lie deeper, so foreign nesting never
// reaches a stack.
class HeaderEvents : public nlohmann::json_sax<nlohmann::json> {
  public:
    explicit HeaderEvents(std::string file_name) : file_name_(std::move(file_name)) {}

    SafetensorsHeader take() { return std::move(header_); }

    bool start_object(size_t) override {
        ++depth_;
        if (depth_ == 1) return true;
        if (depth_ == 2) return begin_value();
        refuse("an object where a value is expected");
    }

    bool end_object() override {
        if (depth_ == 2 && !in_metadata_) finish_tensor();
        --depth_;
        return true;
    }

    bool start_array(size_t) override {
        const bool list_field = field_ == Field::shape || field_ == Field::offsets;
        if (depth_ != 2 || in_metadata_ || !list_field) refuse("a list where it is not expected");
        ++depth_;
        return true;
    }

    bool end_array() override {
        --depth_;
        return true;
    }

    bool key(string_t& name) override {
        if (depth_ == 1) {
            name_ = std::move(name);
        } else if (in_metadata_) {
            metadata_key_ = std::move(name);
        } else {
            select_field(name);
        }
        return true;
    }

    bool string(string_t& text) override {
        if (depth_ == 2 && in_metadata_) {
            if (!header_.metadata.emplace(metadata_key_, std::move(text)).second) {
                refuse(fmt::format("the key {} twice", quoted_for_message(metadata_key_)));
            }
            return true;
        }
        if (depth_ != 2 || field_ != Field::dtype) refuse("text where it is not expected");
        const std::optional<DType> dtype = dtype_from_header(text);
        if (!dtype) refuse(fmt::format("the unknown dtype {}", quoted_for_message(text)));
        entry_.dtype = *dtype;
        return true;
    }

    bool number_unsigned(number_unsigned_t value) override {
        if (depth_ != 3) refuse("a number where it is not expected");
        if (field_ == Field::shape) {
            add_dimension(value);
        } else {
            add_offset(value);
        }
        return true;
    }

    bool number_integer(number_integer_t) override { refuse("a negative number"); }
    bool number_float(number_float_t, const string_t& text) override {
        refuse(fmt::format("the number {}, which is not a whole number below 2^64",
                           quoted_for_message(text)));
    }
    bool null() override { refuse("null"); }
    bool boolean(bool) override { refuse("true or false"); }
    bool binary(binary_t&) override { refuse("binary data"); }

    bool parse_error(size_t position, const std::string&,
                     const nlohmann::json::exception&) override {
        throw Error(
            ErrorKind::bad_data,
            fmt::format("{}: the header is not valid JSON at byte {} of it", file_name_, position));
    }

  private:
    enum class Field : uint8_t { none, dtype, shape, offsets };

    [[noreturn]] void refuse(const std::string& what) const {
        throw Error(ErrorKind::bad_data, fmt::format("{}: the header holds {} (at {})", file_name_,
                                                     what, quoted_for_message(name_)));
    }

    bool begin_value() {
        in_metadata_ = name_ == "__metadata__";
        if (in_metadata_) {
            if (std::exchange(metadata_seen_, true)) refuse("two __metadata__ objects");
            return true;
        }
        if (name_.size() > kMaxSafetensorsNameBytes) {
            refuse(fmt::format("a tensor name of {} bytes, at most {} are read", name_.size(),
                               kMaxSafetensorsNameBytes));
        }
        if (name_.find('\0') != std::string::npos) refuse("a tensor name with a zero byte");
        if (header_.entries.size() == kMaxSafetensorsTensors) {
            refuse(fmt::format("more than {} tensors", kMaxSafetensorsTensors));
        }
        entry_ = SafetensorsEntry{};
        seen_.fill(false);
        num_offsets_ = 0;
        return true;
    }

    void select_field(const std::string& name) {
        field_ = name == "dtype"          ? Field::dtype
                 : name == "shape"        ? Field::shape
                 : name == "data_offsets" ? Field::offsets
                                          : Field::none;
        if (field_ == Field::none) {
            refuse(fmt::format("the unknown field {}", quoted_for_message(name)));
        }
        if (std::exchange(seen_[static_cast<size_t>(field_)], true)) {
            refuse(fmt::format("the field {} twice", name));
        }
    }

    void add_dimension(uint64_t value) {
        if (entry_.rank == kMaxSafetensorsRank) {
            refuse(fmt::format("a shape of more than {} axes", kMaxSafetensorsRank));
        }
        if (value > static_cast<uint64_t>(INT64_MAX)) refuse("a dimension above 2^63");
        entry_.shape[entry_.rank++] = static_cast<int64_t>(value);
    }

    void add_offset(uint64_t value) {
        if (num_offsets_ == 2) refuse("more than two data_offsets");
        (num_offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    }

    void finish_tensor() {
        for (const Field field : {Field::dtype, Field::shape, Field::offsets}) {
            if (!seen_[static_cast<size_t>(field)]) {
                refuse("a tensor without dtype, shape or data_offsets");
            }
        }
        if (num_offsets_ != 2) refuse("a tensor without two data_offsets");
        entry_.name = std::move(name_);
        header_.entries.push_back(std::move(entry_));
    }

    std::string file_name_;
    SafetensorsHeader header_;
    SafetensorsEntry entry_;
    std::string name_;
    std::string metadata_key_;
    std::array<bool, 4> seen_{};
    Field field_ = Field::none;
    int num_offsets_ = 0;
    int depth_ = 0;
    bool in_metadata_ = false;
    bool metadata_seen_ = false;
};

[[noreturn]] void refuse_file(const std::string& file_name, const std::string& what) {
    throw Error(ErrorKind::bad_data, file_name + ": " + what);
}

[[noreturn]] void refuse_truncated(const std::string& file_name, uint64_t expected, size_t actual) {
    refuse_file(file_name, fmt::format("incomplete: {} bytes are expected, the file has {}; "
                                       "download it again",
                                       expected, actual));
}

// The header's JSON text, after the length in front of it was compared with the file.
std::string_view header_text(std::span<const std::byte> file, const std::string& file_name) {
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    if (text.starts_with("version https://git-lfs")) {
        refuse_file(file_name,
                    "a Git LFS pointer, not the weights themselves; run \"git lfs pull\" "
                    "in its folder");
    }
    if (file.size() < 8) {
        refuse_file(file_name, fmt::format("incomplete: a safetensors file has at least 8 bytes, "
                                           "this one has {}; download it again",
                                           file.size()));
    }
    uint64_t length = 0;
    std::memcpy(&length, file.data(), sizeof(length));
    if (length > kMaxSafetensorsHeaderBytes) {
        refuse_file(file_name,
                    fmt::format("not a safetensors file: it announces a header of {} bytes, at "
                                "most {} are read",
                                length, kMaxSafetensorsHeaderBytes));
    }
    if (length > file.size() - 8) refuse_truncated(file_name, 8 + length, file.size());
    if (length == 0 || text[8] != '{') {
        refuse_file(file_name, "not a safetensors file: its header does not start with '{'");
    }
    return text.substr(8, length);
}

// Bytes of the entry's data by its shape; empty when the product overflows.
std::optional<uint64_t> bytes_by_shape(const SafetensorsEntry& entry) {
    uint64_t bytes = dtype_bytes(entry.dtype);
    for (size_t axis = 0; axis < entry.rank; ++axis) {
        if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(entry.shape[axis]), &bytes)) {
            return std::nullopt;
        }
    }
    return bytes;
}

void check_size(const SafetensorsEntry& entry, const std::string& file_name) {
    const std::string name = quoted_for_message(entry.name);
    if (entry.begin > entry.end) {
        refuse_file(file_name, fmt::format("tensor {} begins at {} and ends at {}", name,
                                           entry.begin, entry.end));
    }
    const std::optional<uint64_t> bytes = bytes_by_shape(entry);
    if (!bytes || *bytes != entry.end - entry.begin) {
        refuse_file(file_name, fmt::format("tensor {} is {}, but its data has {} bytes", name,
                                           entry.describe(), entry.end - entry.begin));
    }
}

// Offsets, taken in order, must cover the data from its start without hole or overlap. Returns
// where they end.
uint64_t check_contiguous(const SafetensorsHeader& header, const std::string& file_name) {
    std::vector<uint32_t> order(header.entries.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<uint32_t>(i);
    std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
        const SafetensorsEntry& left = header.entries[a];
        const SafetensorsEntry& right = header.entries[b];
        return std::pair(left.begin, left.end) < std::pair(right.begin, right.end);
    });
    uint64_t covered = 0;
    for (const uint32_t index : order) {
        const SafetensorsEntry& entry = header.entries[index];
        check_size(entry, file_name);
        if (entry.begin != covered) {
            refuse_file(file_name,
                        fmt::format("tensor {} begins at {}, but the data before it ends at {}",
                                    quoted_for_message(entry.name), entry.begin, covered));
        }
        covered = entry.end;
    }
    return covered;
}

void check_unique(const SafetensorsHeader& header, const std::string& file_name) {
    const auto twin = std::adjacent_find(
        header.entries.begin(), header.entries.end(),
        [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.name == b.name; });
    if (twin != header.entries.end()) {
        refuse_file(file_name,
                    fmt::format("tensor {} is there twice", quoted_for_message(twin->name)));
    }
}

}  // namespace

std::string SafetensorsEntry::describe() const {
    std::string text = std::string(dtype_name(dtype)) + "[";
    for (size_t axis = 0; axis < rank; ++axis) {
        text += (axis > 0 ? ", " : "") + std::to_string(shape[axis]);
    }
    return text + "]";
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> file,
                                           const std::string& file_name) {
    const std::string_view text = header_text(file, file_name);
    HeaderEvents events(file_name);
    nlohmann::json::sax_parse(text.begin(), text.end(), &events);
    SafetensorsHeader header = events.take();
    std::sort(header.entries.begin(), header.entries.end(),
              [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.name < b.name; });
    check_unique(header, file_name);
    const uint64_t covered = check_contiguous(header, file_name);
    header.data_begin = 8 + text.size();
    const uint64_t present = file.size() - header.data_begin;
    if (covered > present) {
        refuse_file(file_name,
                    fmt::format("incomplete: its tensors need {} bytes after a header of {}, the "
                                "file has {} in all; download it again",
                                covered, header.data_begin, file.size()));
    }
    if (covered < present) {
        refuse_file(file_name,
                    fmt::format("{} bytes lie after the last tensor", present - covered));
    }
    for (SafetensorsEntry& entry : header.entries) {
        entry.begin += header.data_begin;
        entry.end += header.data_begin;
    }
    return header;
}

}  // namespace nvllm
