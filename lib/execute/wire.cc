// Writes and reads the fields of wire_fields.h.
#include "lib/execute/wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <filesystem>
#include <optional>
#include <type_traits>
#include <utility>

#include "lib/execute/wire_fields.h"

namespace nvllm {
namespace {

static_assert(std::endian::native == std::endian::little,
              "numbers are copied as they lie in memory: other machines need their bytes turned");

template <typename T>
concept Number = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;
template <typename T>
concept Record = std::is_aggregate_v<T>;

[[noreturn]] void refuse(const std::string& what) {
    throw Error(ErrorKind::bad_data, "a message between engine and worker " + what);
}

class Writer {
  public:
    explicit Writer(Bytes& bytes) : bytes_(bytes) {}

    template <typename... Members>
    void operator()(const Members&... members) {
        (write(members), ...);
    }

  private:
    void append(const void* data, size_t size) {
        const auto* begin = static_cast<const uint8_t*>(data);
        bytes_.insert(bytes_.end(), begin, begin + size);
    }
    template <Number T>
    void write(const T& value) {
        append(&value, sizeof(value));
    }
    void write(bool value) { bytes_.push_back(value ? 1 : 0); }
    template <typename T>
    requires std::is_enum_v<T>
    void write(const T& value) { bytes_.push_back(static_cast<uint8_t>(value)); }
    void write_length(size_t length) {
        if (length > kMaxPayloadBytes) throw Error(ErrorKind::does_not_fit, "a list is too long");
        write(static_cast<uint32_t>(length));
    }
    void write(const std::string& text) {
        write_length(text.size());
        append(text.data(), text.size());
    }
    void write(const std::filesystem::path& path) { write(path.native()); }
    template <Number T, size_t N>
    void write(const std::array<T, N>& values) {
        append(values.data(), sizeof(values));
    }
    template <typename T>
    void write(const std::optional<T>& value) {
        write(value.has_value());
        if (value) write(*value);
    }
    template <typename T, typename U>
    void write(const std::pair<T, U>& pair) {
        write(pair.first);
        write(pair.second);
    }
    template <Number T>
    void write(const std::vector<T>& values) {
        write_length(values.size());
        append(values.data(), values.size() * sizeof(T));
    }
    template <typename T>
    void write(const std::vector<T>& values) {
        write_length(values.size());
        for (const T& value : values) write(value);
    }
    // The field list is shared with reading, which changes what it visits.
    template <Record T>
    void write(const T& record) {
        fields(*this, const_cast<T&>(record));
    }

    Bytes& bytes_;
};

class Reader {
  public:
    explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}

    template <typename... Members>
    void operator()(Members&... members) {
        (read(members), ...);
    }
    void finish() const {
        if (!rest_.empty()) refuse(fmt::format("has {} bytes too many", rest_.size()));
    }

  private:
    std::span<const uint8_t> take(size_t size) {
        if (size > rest_.size()) {
            refuse(fmt::format("ends {} bytes too early", size - rest_.size()));
        }
        const std::span<const uint8_t> taken = rest_.first(size);
        rest_ = rest_.subspan(size);
        return taken;
    }
    template <Number T>
    void read(T& value) {
        std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    }
    void read(bool& value) {
        const uint8_t byte = take(1)[0];
        if (byte > 1) refuse(fmt::format("says {} where only 0 and 1 may be", byte));
        value = byte == 1;
    }
    template <typename T>
    requires std::is_enum_v<T>
    void read(T& value) {
        const uint8_t byte = take(1)[0];
        if (byte > static_cast<uint8_t>(last_value(T{}))) {
            refuse(fmt::format("says {}, which is no value of its field", byte));
        }
        value = static_cast<T>(byte);
    }
    // Of a list whose elements have so many bytes at least.
    size_t read_length(size_t min_bytes) {
        uint32_t length = 0;
        read(length);
        if (length > rest_.size() / min_bytes) {
            refuse(fmt::format("announces {} elements in {} bytes", length, rest_.size()));
        }
        return length;
    }
    void read(std::string& text) {
        const auto bytes = take(read_length(1));
        text.assign(bytes.begin(), bytes.end());
    }
    void read(std::filesystem::path& path) {
        std::string text;
        read(text);
        path = text;
    }
    template <Number T, size_t N>
    void read(std::array<T, N>& values) {
        std::memcpy(values.data(), take(sizeof(values)).data(), sizeof(values));
    }
    template <typename T>
    void read(std::optional<T>& value) {
        bool given = false;
        read(given);
        value.reset();
        if (given) read(value.emplace());
    }
    template <typename T, typename U>
    void read(std::pair<T, U>& pair) {
        read(pair.first);
        read(pair.second);
    }
    template <Number T>
    void read(std::vector<T>& values) {
        const size_t length = read_length(sizeof(T));
        const auto bytes = take(length * sizeof(T));
        values.resize(length);
        if (length > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    }
    // Elements are made as they come: a length alone makes none.
    template <typename T>
    void read(std::vector<T>& values) {
        const size_t length = read_length(1);
        values.clear();
        for (size_t i = 0; i < length; ++i) read(values.emplace_back());
    }
    template <Record T>
    void read(T& record) {
        fields(*this, record);
    }

    std::span<const uint8_t> rest_;
};

template <typename Message>
void write_as(MessageKind kind, const Message& message, Bytes& frame) {
    frame.clear();
    Writer writer(frame);
    writer(uint32_t{0}, kWireVersion, static_cast<uint16_t>(kind), message);
    const size_t size = frame.size() - kFrameHeadBytes;
    if (size > kMaxPayloadBytes) {
        throw Error(ErrorKind::does_not_fit,
                    fmt::format("a message to the worker has {} bytes, more than the {} allowed",
                                size, kMaxPayloadBytes));
    }
    const auto announced = static_cast<uint32_t>(size);
    std::memcpy(frame.data(), &announced, sizeof(announced));
}

}  // namespace

void write_frame(const WorkerSetup& message, Bytes& frame) {
    write_as(MessageKind::setup, message, frame);
}
void write_frame(const WorkerReady& message, Bytes& frame) {
    write_as(MessageKind::ready, message, frame);
}
void write_frame(const BatchPlan& message, Bytes& frame) {
    write_as(MessageKind::plan, message, frame);
}
void write_frame(const StepResult& message, Bytes& frame) {
    write_as(MessageKind::result, message, frame);
}
void write_frame(const StepOfOthers& message, Bytes& frame) {
    write_as(MessageKind::others, message, frame);
}
void write_frame(const ForgetSequences& message, Bytes& frame) {
    write_as(MessageKind::forget, message, frame);
}
void write_frame(const RankProbe& message, Bytes& frame) {
    write_as(MessageKind::probe, message, frame);
}
void write_frame(const RankRates& message, Bytes& frame) {
    write_as(MessageKind::rates, message, frame);
}
void write_frame(const WorkerFault& message, Bytes& frame) {
    write_as(MessageKind::fault, message, frame);
}

FrameHead read_frame_head(std::span<const uint8_t, kFrameHeadBytes> head) {
    uint32_t size = 0;
    uint16_t version = 0;
    uint16_t kind = 0;
    std::memcpy(&size, head.data(), sizeof(size));
    std::memcpy(&version, head.data() + 4, sizeof(version));
    std::memcpy(&kind, head.data() + 6, sizeof(kind));
    if (version != kWireVersion) {
        refuse(
            fmt::format("has version {}; this build speaks {}: programs and library are of "
                        "different installations",
                        version, kWireVersion));
    }
    if (kind < static_cast<uint16_t>(MessageKind::setup) ||
        kind > static_cast<uint16_t>(MessageKind::fault)) {
        refuse(fmt::format("is of kind {}, which there is not", kind));
    }
    if (size > kMaxPayloadBytes) refuse(fmt::format("announces {} bytes", size));
    return {static_cast<MessageKind>(kind), size};
}

template <typename Message>
Message read_payload(std::span<const uint8_t> payload) {
    Message message;
    Reader reader(payload);
    reader(message);
    reader.finish();
    return message;
}

template WorkerSetup read_payload(std::span<const uint8_t> payload);
template WorkerReady read_payload(std::span<const uint8_t> payload);
template BatchPlan read_payload(std::span<const uint8_t> payload);
template StepResult read_payload(std::span<const uint8_t> payload);
template ForgetSequences read_payload(std::span<const uint8_t> payload);
template StepOfOthers read_payload(std::span<const uint8_t> payload);
template RankProbe read_payload(std::span<const uint8_t> payload);
template RankRates read_payload(std::span<const uint8_t> payload);
template WorkerFault read_payload(std::span<const uint8_t> payload);

}  // namespace nvllm
