// SPDX-License-Identifier: Apache-2.0
// The words that this start was given: by the menu of the ISO, or by the process's arguments.
#pragma once
#include "base/cc.h"

// Is `word` one of them?
bool command_line_has(const char *word);
