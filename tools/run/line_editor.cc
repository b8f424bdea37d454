// Keys, redrawing, and the way through libedit.
#include "tools/run/line_editor.h"

#include <fmt/format.h>
#include <histedit.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <cwctype>
#include <string_view>

#include "kernels/error.h"
#include "lib/cli/main_guard.h"
#include "tools/run/terminal.h"

namespace nvllm::run {
namespace {

constexpr int kHistorySize = 1000;
// A stop signal that comes just before the wait is noticed after so long.
constexpr int kSignalPause_ms = 250;
constexpr wchar_t kReplacement = 0xFFFD;

// Terminals that are asked put these around what is pasted.
constexpr const char* kPasteMarksOn = "\x1b[?2004h";
constexpr const char* kPasteMarksOff = "\x1b[?2004l";
constexpr const char* kPasteBegins = "\\e[200~";
constexpr std::wstring_view kPasteEnds = L"\x1b[201~";

bool is_dumb() {
    const char* name = std::getenv("TERM");
    return name == nullptr || std::strcmp(name, "dumb") == 0;
}

// The width that libedit draws with.
int columns_of(editline* editor) {
    char name[] = "co";
    int columns = 0;
    if (el_get(editor, EL_GETTC, name, &columns) != 0 || columns <= 0) return 80;
    return columns;
}

// libedit shows control characters as ^X.
int width_of(wchar_t character) {
    if (std::iswcntrl(static_cast<wint_t>(character)) != 0) return 2;
    return std::max(0, ::wcwidth(character));
}

}  // namespace

LineEditor::LineEditor()
    : screen_(::isatty(STDOUT_FILENO) != 0 || ::isatty(STDERR_FILENO) == 0 ? stdout : stderr),
      obeys_sequences_(::isatty(::fileno(screen_)) != 0 && !is_dumb()),
      editor_(el_init("nvllm-run", stdin, screen_, stderr)),
      history_(history_init()) {
    if (editor_ == nullptr || history_ == nullptr) {
        throw Error(ErrorKind::unavailable, "the terminal cannot be used for line editing");
    }
    HistEvent event;
    ::history(history_, &event, H_SETSIZE, kHistorySize);
    el_set(editor_, EL_CLIENTDATA, this);
    el_set(editor_, EL_PROMPT, &LineEditor::prompt);
    el_set(editor_, EL_EDITOR, "emacs");
    el_set(editor_, EL_HIST, ::history, history_);
    el_set(editor_, EL_GETCFN, &LineEditor::read_character);
    bind("nvllm-paste", "Insert what is pasted", &LineEditor::paste, {kPasteBegins});
    bind("nvllm-newline", "Begin another line", &LineEditor::add_newline, {"\\e\\n", "\\e\\r"});
    send(kPasteMarksOn);
}

LineEditor::~LineEditor() {
    send(kPasteMarksOff);
    if (history_ != nullptr) history_end(history_);
    if (editor_ != nullptr) el_end(editor_);
}

void LineEditor::bind(const char* name, const char* help, unsigned char (*function)(editline*, int),
                      std::initializer_list<const char*> keys) {
    el_set(editor_, EL_ADDFN, name, help, function);
    for (const char* key : keys) el_set(editor_, EL_BIND, key, name, nullptr);
}

void LineEditor::send(const std::string& sequence) const {
    if (!obeys_sequences_) return;
    std::fputs(sequence.c_str(), screen_);
    std::fflush(screen_);
}

std::optional<std::string> LineEditor::read(const char* prompt) {
    prompt_ = prompt;
    // libedit shows the prompt before it takes the echo off: what is typed between the two would be
    // shown twice.
    el_set(editor_, EL_PREP_TERM, 1);
    int length = 0;
    const char* text = el_gets(editor_, &length);
    if (text == nullptr || length <= 0) return std::nullopt;
    std::string line(text, static_cast<size_t>(length));
    while (line.ends_with('\n') || line.ends_with('\r')) line.pop_back();
    return line;
}

void LineEditor::remember(const std::string& text) {
    HistEvent event;
    ::history(history_, &event, H_ENTER, text.c_str());
}

LineEditor& LineEditor::of(editline* editor) {
    void* self = nullptr;
    el_get(editor, EL_CLIENTDATA, &self);
    return *static_cast<LineEditor*>(self);
}

char* LineEditor::prompt(editline* editor) { return const_cast<char*>(of(editor).prompt_); }

// As libedit wants it: 1, 0 at the end of input, -1 with errno. What is no character of the
// locale's becomes U+FFFD.
int LineEditor::read_character(editline* editor, wchar_t* character) {
    LineEditor& self = of(editor);
    while (self.wait_for_input()) {
        char byte = 0;
        const ssize_t count = ::read(STDIN_FILENO, &byte, 1);
        if (count < 0 && errno == EINTR) continue;
        if (count <= 0) return static_cast<int>(count);
        const size_t length = std::mbrtowc(character, &byte, 1, &self.decoding_);
        if (length == static_cast<size_t>(-2)) continue;
        if (length == static_cast<size_t>(-1)) {
            self.decoding_ = {};
            *character = kReplacement;
        }
        return 1;
    }
    errno = EINTR;
    return -1;
}

// False when a stop signal came first.
bool LineEditor::wait_for_input() {
    pollfd input{STDIN_FILENO, POLLIN, 0};
    while (!stop_signal()) {
        if (TerminalSignals::wants_suspension()) suspend();
        if (TerminalSignals::was_continued()) resume();
        if (TerminalSignals::was_resized()) resize();
        if (::poll(&input, 1, kSignalPause_ms) > 0) return true;
    }
    return false;
}

void LineEditor::suspend() {
    send(kPasteMarksOff);
    el_set(editor_, EL_PREP_TERM, 0);
    TerminalSignals::suspend();
}

// The shell has set the terminal's modes meanwhile, and written below what was shown.
void LineEditor::resume() {
    el_set(editor_, EL_PREP_TERM, 0);
    el_set(editor_, EL_PREP_TERM, 1);
    send(kPasteMarksOn);
    el_set(editor_, EL_REFRESH);
}

// Terminals wrap what they show anew: the prompt begins where the text before the cursor says.
// The size is read once, by libedit: it may change again between two readings.
void LineEditor::resize() {
    el_resize(editor_);
    const int rows = rows_above_cursor(columns_of(editor_));
    send(fmt::format("\r{}\x1b[J", rows > 0 ? fmt::format("\x1b[{}A", rows) : ""));
    el_set(editor_, EL_REFRESH);
}

int LineEditor::rows_above_cursor(int columns) const {
    const LineInfoW* line = el_wline(editor_);
    int row = 0;
    int column = static_cast<int>(std::strlen(prompt_));
    for (const wchar_t* at = line->buffer; at != line->cursor; ++at) {
        const int width = *at == L'\n' ? columns : width_of(*at);
        if (column + width > columns) {
            ++row;
            column = 0;
        }
        if (*at != L'\n') column += width;
    }
    return row;
}

unsigned char LineEditor::paste(editline* editor, int) {
    std::wstring text;
    while (!text.ends_with(kPasteEnds)) {
        wchar_t character = 0;
        if (el_wgetc(editor, &character) != 1) return CC_EOF;
        if (character != 0) text += character == L'\r' ? L'\n' : character;
    }
    text.resize(text.size() - kPasteEnds.size());
    el_winsertstr(editor, text.c_str());
    return CC_REFRESH;
}

unsigned char LineEditor::add_newline(editline* editor, int) {
    el_winsertstr(editor, L"\n");
    return CC_REFRESH;
}

}  // namespace nvllm::run
