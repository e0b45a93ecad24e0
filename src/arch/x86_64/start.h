// SPDX-License-Identifier: Apache-2.0
// Starting the other processors of a PC: the page they begin at, and the messages that make them.
#pragma once
#include "base/cc.h"

// Fills the page at `page`, which is `phys` (below 1 MiB) and mapped one to one for execution in
// the tables of `root_phys` (below 4 GiB): a processor that begins there comes to entry(core) with
// this stack, this one's control registers and no vector state.
void core_page_fill(u8 *page, u32 phys, u64 root_phys, u64 stack_top, void (*entry)(u32 core),
                    u32 core);
