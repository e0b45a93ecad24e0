// SPDX-License-Identifier: Apache-2.0
// Proves of src/loop/epoch.c and of the index of filters built on it (src/broker/wants.c): no core
// reads a node that has been reused, however the index changes and whoever sleeps; and once a
// change is called live every later message of every core is sent by it. One writer links and
// unlinks a node; two readers take turns of reading, resting, sleeping, as cores do.
//   -DBUG_OFFLINE  a core that wakes reads before it comes online
//   -DBUG_GRACE    the writer reuses a node without waiting
//   -DBUG_HELD     a reader keeps the node over the end of its turn
#define READERS 2
#define TURNS 3
#define CHANGES 3
#define OFFLINE 255

byte now = 1;
byte seen[READERS];
bit linked;      // the filter's node is in the index
byte made;       // the node's life: odd, in use; even, free
byte live;       // the subscription that has been acknowledged, 0 = none

proctype reader(byte i) {
  byte turn, life;
  bit found, held;
  byte was_live;
  do
  :: turn < TURNS ->
     turn++;
     was_live = live;  // a message that arrives now, after the SUBACK
     if
     :: !held -> found = linked; life = made
     :: else
     fi;
     if
     :: found -> assert(life == made && made % 2 == 1)  // what we stand on is what we found
     :: else -> assert(was_live == 0 || was_live != live)  // or it has been taken back meanwhile
     fi;
#ifdef BUG_HELD
     held = found;
#endif
     if
     :: seen[i] = now  // the end of the turn
     :: seen[i] = OFFLINE;  // it sleeps
#ifdef BUG_OFFLINE
        found = linked; life = made;
        held = 1;
        seen[i] = now
#else
        seen[i] = now
#endif
     fi;
#ifdef BUG_OFFLINE
     if :: found -> assert(life == made && made % 2 == 1) :: else fi;
     held = 0
#endif
  :: turn == TURNS -> break
  od;
  seen[i] = OFFLINE
}

#define reached(e) (seen[0] >= e && seen[1] >= e)

proctype writer() {
  byte k, e;
  do
  :: k < CHANGES ->
     k++;
     atomic { made++; linked = 1 };
     now++; e = now;
     reached(e);
     live = k;
     // the last subscriber goes: first nobody counts on it, then it goes out of the index
     live = 0;
     linked = 0;
     now++; e = now;
#ifndef BUG_GRACE
     reached(e);
#endif
     made++
  :: k == CHANGES -> break
  od
}

init { atomic { run reader(0); run reader(1); run writer() } }
