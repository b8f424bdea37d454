// libedit behind one call: what the user types, with history, pastes, resizing and Ctrl-Z.
#pragma once

#include <cstdio>
#include <cwchar>
#include <optional>
#include <string>

struct editline;
struct history;

namespace nvllm::run {

// Reads from standard input, shows on standard output or, where that is no terminal, on standard
// error. One at a time; REQUIRES: TerminalSignals (tools/run/terminal.h) lives.
class LineEditor {
  public:
    // Throws unavailable when the terminal cannot be used.
    LineEditor();
    ~LineEditor();
    LineEditor(const LineEditor&) = delete;
    LineEditor& operator=(const LineEditor&) = delete;

    // What was typed before Enter, without the end of the line; nothing at the end of input or when
    // a stop signal came. It holds newlines where several lines were pasted or Alt+Enter was typed.
    std::optional<std::string> read(const char* prompt);
    // The arrow keys will find it.
    void remember(const std::string& text);
    // Where the prompt is shown.
    std::FILE* screen() const { return screen_; }

  private:
    static LineEditor& of(editline* editor);
    static char* prompt(editline* editor);
    static int read_character(editline* editor, wchar_t* character);
    static unsigned char paste(editline* editor, int key);
    static unsigned char add_newline(editline* editor, int key);

    void bind(const char* name, const char* help, unsigned char (*function)(editline*, int),
              std::initializer_list<const char*> keys);
    bool wait_for_input();
    void suspend();
    void resume();
    void resize();
    int rows_above_cursor(int columns) const;
    void send(const std::string& sequence) const;

    std::FILE* screen_;
    bool obeys_sequences_;  // no TERM=dumb
    editline* editor_;
    ::history* history_;
    const char* prompt_ = "";
    std::mbstate_t decoding_{};
};

}  // namespace nvllm::run
