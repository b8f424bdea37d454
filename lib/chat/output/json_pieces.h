// Calls that are JSON, given while they are read.
#pragma once

#include <string>

#include "lib/chat/output/call_sink.h"
#include "lib/chat/output/json_text.h"

namespace nvllm::output {

// Goes through an object that is a call, or a list of them, byte by byte: begins a call when its
// name is whole and gives the arguments as they come. What it cannot give before the end it leaves,
// with all that follows: arguments before the name, arguments as a text.
class JsonCallPieces {
  public:
    explicit JsonCallPieces(CallSink& sink) : sink_(sink) {}

    // `scanner` has read the byte.
    void read(char c, const JsonScanner& scanner);
    // Of JSON that has ended: whether it was calls alone, all of which were given.
    bool has_given_all() const { return num_given_ > 0 && !is_left_; }

  private:
    // Where the next byte stands.
    enum class Place { key, value, arguments };

    bool is_arguments_key() const { return key_ == "arguments" || key_ == "parameters"; }
    void read_arguments(char c, bool is_text, size_t depth);
    void read_in_call(char c);
    void end_string();
    void end_call();

    CallSink& sink_;
    Place place_ = Place::key;
    size_t call_depth_ = 0;  // brackets around the members of a call
    bool in_string_ = false;
    std::string string_;
    std::string key_;
    std::string id_;
    bool has_name_ = false;
    bool has_arguments_ = false;
    size_t num_given_ = 0;
    bool is_left_ = false;
};

}  // namespace nvllm::output
