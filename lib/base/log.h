// Messages for the operator, on stderr: text or JSON lines.
//
// Lines of several threads do not mix. When stderr is closed, full or its reader is gone, messages
// are dropped and only counted: a log never ends a program.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace nvllm {

enum class LogLevel : uint8_t { debug, info, warning, error, off };

// "debug", "info", "warning", "error", "off".
std::string_view log_level_name(LogLevel level);

enum class LogFormat : uint8_t { text, json };

struct LogOptions {
    LogLevel level = LogLevel::info;  // this and everything graver
    LogFormat format = LogFormat::text;
    // A reader that stands still is not waited for either: its lines are dropped.
    bool waits_for_reader = true;
};

// Applies to all threads from here on. Colours are used for text on a terminal, unless NO_COLOR is
// set (no-color.org).
void configure_log(const LogOptions& options);

// Whether a message of this level would be written: to spare the making of one that would not.
bool log_enabled(LogLevel level);

// Line breaks and control characters in the message are escaped.
void log_message(LogLevel level, std::string_view message);

// What a message is about, under names of its own: in JSON beside the message, in text behind it as
// name=value.
struct LogField {
    std::string_view name;  // none of time, level, message
    std::variant<std::string, int64_t, double> value;
    bool is_in_message = false;  // which says it already: JSON alone has the field
};
void log_message(LogLevel level, std::string_view message, std::span<const LogField> fields);

// Waits, `patience` at most, until the reader of a pipe has taken all that was written: before each
// of the long lines that were asked for, which together are more than a pipe holds.
void wait_for_log_reader(std::chrono::milliseconds patience);

// Lines that could not be written, or not all of them, since the start of the process.
uint64_t log_lines_dropped();

inline void log_debug(std::string_view message) { log_message(LogLevel::debug, message); }
inline void log_info(std::string_view message) { log_message(LogLevel::info, message); }
inline void log_warning(std::string_view message) { log_message(LogLevel::warning, message); }
inline void log_error(std::string_view message) { log_message(LogLevel::error, message); }

}  // namespace nvllm
