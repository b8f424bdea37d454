// The answer as it is put together: what is to be given next, and white space of which it is not
// known yet whether it stands beside a marker.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/chat/output/output_parser.h"
#include "lib/chat/output/text_reader.h"

namespace nvllm::output {

// A text in pieces. White space beside a border (a marker that was read) is not part of it, where
// nothing else follows.
class TextChannel {
  public:
    void append(std::string_view text, std::string& out);
    void border();
    // Another part of the text begins: a line of its own.
    void separate();
    void finish(std::string& out);

  private:
    std::string held_;  // white space
    bool begun_ = false;
    bool held_at_border_ = false;
    bool drops_space_ = false;  // at the beginning of a part
};

class Answer {
  public:
    Answer() { reasoning_.border(); }

    void content(std::string_view text) { content_.append(text, next_.content); }
    void reasoning(std::string_view text) { reasoning_.append(text, next_.reasoning); }
    // Calls, one after the other: the arguments in pieces.
    void begin_call(std::string id, std::string name);
    void call_arguments(std::string_view piece);
    void end_call();
    bool in_call() const { return in_call_; }
    // A marker was read.
    void border() { content_.border(); }
    // A further message of content, of reasoning.
    void separate_content() { content_.separate(); }
    void separate_reasoning() { reasoning_.separate(); }

    // What is new since the last time.
    OutputDelta take();
    OutputDelta finish();

  private:
    OutputDelta next_;
    TextChannel content_;
    TextChannel reasoning_;
    size_t num_calls_ = 0;
    bool in_call_ = false;
};

}  // namespace nvllm::output
