// What a terminal does to the program that reads from it: resizing, suspending, echo.
#pragma once

#include <termios.h>

#include <optional>

namespace nvllm::run {

// While one lives, Ctrl-Z and changes of size are noted instead of acted upon, so that the terminal
// can be left and found as it ought to be. One at a time.
class TerminalSignals {
  public:
    TerminalSignals();
    ~TerminalSignals();
    TerminalSignals(const TerminalSignals&) = delete;
    TerminalSignals& operator=(const TerminalSignals&) = delete;

    // Each is true once for what came since it was last asked.
    static bool wants_suspension();  // Ctrl-Z: the caller readies the terminal and calls suspend()
    static bool was_continued();     // others may have used the terminal meanwhile
    static bool was_resized();

    // Stops the process until it is continued.
    static void suspend();
};

// While it lives, what is typed is neither shown nor lost: the next to read gets it. Nothing
// happens where standard input is no terminal.
class QuietTerminal {
  public:
    QuietTerminal();
    ~QuietTerminal();
    QuietTerminal(const QuietTerminal&) = delete;
    QuietTerminal& operator=(const QuietTerminal&) = delete;

    // To be called now and then: suspends when that was asked for. REQUIRES: TerminalSignals.
    void heed_signals();

  private:
    void quieten();
    void restore();

    std::optional<termios> before_;
};

}  // namespace nvllm::run
