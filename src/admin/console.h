// SPDX-License-Identifier: Apache-2.0
// Commands typed on the console (serial line, keyboard; hosted: standard input): one a line. `help`
// lists them.
#pragma once
#include "loop/core.h"

bool console_start(struct core *core);
// `quit` or `poweroff` was typed.
bool console_stop_requested(void);
