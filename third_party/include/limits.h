// SPDX-License-Identifier: Apache-2.0
// argon2's public header wants the bits of a byte.
#pragma once
#define CHAR_BIT __CHAR_BIT__
