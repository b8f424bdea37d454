// Handlers that note signals, and the terminal's modes.
#include "tools/run/terminal.h"

#include <unistd.h>

#include <array>
#include <csignal>

namespace nvllm::run {
namespace {

volatile std::sig_atomic_t suspension_wanted = 0;
volatile std::sig_atomic_t continued = 0;
volatile std::sig_atomic_t resized = 0;

constexpr std::array kSignals = {SIGTSTP, SIGCONT, SIGWINCH};

void note(int signal) {
    if (signal == SIGTSTP) suspension_wanted = 1;
    if (signal == SIGCONT) continued = 1;
    if (signal == SIGWINCH) resized = 1;
}

// What waits for input is woken all the same: poll() is never restarted.
void handle(int signal, void (*handler)(int)) {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(signal, &action, nullptr);
}

bool take(volatile std::sig_atomic_t& noted) {
    if (noted == 0) return false;
    noted = 0;
    return true;
}

}  // namespace

TerminalSignals::TerminalSignals() {
    for (const int signal : kSignals) handle(signal, note);
}

TerminalSignals::~TerminalSignals() {
    for (const int signal : kSignals) handle(signal, SIG_DFL);
}

bool TerminalSignals::wants_suspension() { return take(suspension_wanted); }
bool TerminalSignals::was_continued() { return take(continued); }
bool TerminalSignals::was_resized() { return take(resized); }

void TerminalSignals::suspend() {
    handle(SIGTSTP, SIG_DFL);
    ::kill(::getpid(), SIGTSTP);
    handle(SIGTSTP, note);
    continued = 1;  // also if nothing was stopped
}

QuietTerminal::QuietTerminal() {
    termios modes{};
    if (::tcgetattr(STDIN_FILENO, &modes) == 0) before_ = modes;
    quieten();
}

QuietTerminal::~QuietTerminal() { restore(); }

void QuietTerminal::quieten() {
    if (!before_) return;
    termios quiet = *before_;
    quiet.c_lflag &= ~static_cast<tcflag_t>(ECHO | ICANON);
    ::tcsetattr(STDIN_FILENO, TCSADRAIN, &quiet);
}

void QuietTerminal::restore() {
    if (before_) ::tcsetattr(STDIN_FILENO, TCSADRAIN, &*before_);
}

void QuietTerminal::heed_signals() {
    if (TerminalSignals::wants_suspension()) {
        restore();
        TerminalSignals::suspend();
    }
    if (TerminalSignals::was_continued()) quieten();
}

}  // namespace nvllm::run
