// Where readers give the calls that they find.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lib/chat/output/answer.h"
#include "lib/chat/output/parameter_types.h"

namespace nvllm::output {

struct FoundCall {
    std::string id = {};
    std::string name = {};
    std::string arguments = {};  // the text of a JSON object
};

// Takes calls in pieces. Those of a held attempt (HeldCalls) go into the answer at once; others
// wait until the reader has found all of them whole.
class CallSink {
  public:
    explicit CallSink(Answer& answer) : answer_(answer) {}

    // An attempt to read calls, from a position of the text on.
    void start(size_t position, bool is_held);
    bool is_held() const { return is_held_; }

    // A call: begin, arguments in pieces, end. REQUIRES: one after the other.
    void begin(std::string id, std::string name);
    void arguments(std::string_view piece);
    void end();
    void call(FoundCall call);

    // Of this attempt: those begun, and whether the last one has not ended.
    size_t num_calls() const { return num_calls_; }
    bool in_call() const { return in_call_; }

    // All calls of the attempt are whole.
    void commit();
    const std::vector<size_t>& positions() const { return positions_; }

  private:
    Answer& answer_;
    bool is_held_ = false;
    bool in_call_ = false;
    size_t start_ = 0;
    size_t num_calls_ = 0;
    std::vector<FoundCall> waiting_;
    std::vector<size_t> positions_;
};

// Writes the arguments of a call from values that come one after the other. Of a call that is not
// held, and of a name that comes twice, the last value counts.
class ArgumentsWriter {
  public:
    explicit ArgumentsWriter(CallSink& sink) : sink_(sink) {}
    bool is_held() const { return sink_.is_held(); }

    // The value of this name comes next.
    void begin_value(const std::string& name);
    // The next piece of a value that is a text for certain, in whole characters.
    void text_piece(std::string_view piece);
    // The value as JSON, all of it: of a text json_quoted() of its pieces and what follows them.
    void end_value(std::string json);
    void end();

    // Of the values that have ended.
    std::vector<std::string> names() const { return values_.names(); }

  private:
    CallSink& sink_;
    ArgumentsText values_;
    std::string name_;
    size_t num_given_ = 0;  // bytes of the value's JSON
    bool has_begun_ = false;
};

}  // namespace nvllm::output
