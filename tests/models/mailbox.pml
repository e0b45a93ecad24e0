// SPDX-License-Identifier: Apache-2.0
// Proves of src/loop/mailbox.c: no wake-up is lost (a core that sleeps has no mail, nor entries of
// its own that came back); a control entry always finds room, whatever data was put before; every
// entry is taken once, in order, and comes back. Two cores, each sends DATA data entries and ROUNDS
// control requests that the other answers by a control entry of its own. The answers need no room
// of the requester's: at most one of its requests is under way.
// The words are as in mailbox.c; steps between them interleave in any order. That they are seen in
// that order at all is the part of the ordered accesses there, which this does not model.
//   -DBUG_SLEEP    a core looks at its rings before it says that it sleeps
//   -DBUG_RESERVE  data may fill the whole ring
//   -DBUG_WAIT     a core does not take mail while a ring it sends into is full
#define SIZE 3
#define DATA 2
#define ROUNDS 1
#ifdef BUG_RESERVE
#define RESERVE 0
#else
#define RESERVE 2  // a request and an answer
#endif

#define D 0
#define REQUEST 1
#define ANSWER 2

typedef ring {
  byte slot[SIZE];  // kind
  byte number[SIZE];
  byte put, tail, head, got, reaped
};
ring r[2];  // r[i]: from core i to core 1-i
bit asleep[2];
bit token[2];  // plat_wake is remembered until plat_idle
byte sent[2], expected[2], answers[2], back[2];

#define room(i, n) (r[i].put - r[i].reaped + (n) < SIZE)

inline post(c, kind, num) {
  assert(r[c].put - r[c].reaped < SIZE);
  r[c].slot[r[c].put % SIZE] = kind;
  r[c].number[r[c].put % SIZE] = num;
  r[c].put++
}

// Stores the word; then whoever sleeps is woken once.
inline ring_bell(c) {
  if
  :: asleep[c] -> d_step { if :: asleep[c] -> asleep[c] = 0; token[c] = 1 :: else fi }
  :: else
  fi
}

inline get(c) {  // everything that is there
  do
  :: atomic { seen > r[1 - c].got ->
       if
       :: r[1 - c].slot[r[1 - c].got % SIZE] == D ->
            assert(r[1 - c].number[r[1 - c].got % SIZE] == expected[c]); expected[c]++
       :: r[1 - c].slot[r[1 - c].got % SIZE] == REQUEST ->
            assert(room(c, 0));  // control always fits
            post(c, ANSWER, 0)
       :: else -> answers[c]++
       fi;
       r[1 - c].got++
     }
  :: seen == r[1 - c].got -> break
  od
}

proctype core(bit i) {
  byte seen, requests;
  bit any, stuck;
  do
  :: any = 0; stuck = 0;
     seen = r[i].head;  // what came back
     atomic { any = (seen != r[i].reaped); back[i] = back[i] + seen - r[i].reaped; r[i].reaped = seen };
#ifdef BUG_WAIT
     stuck = !room(i, RESERVE);
#endif
     if
     :: !stuck ->
        seen = r[1 - i].tail;
        if
        :: seen != r[1 - i].got -> any = 1; get(i); r[1 - i].head = seen; ring_bell(1 - i)
        :: else
        fi
     :: else
     fi;
     // work of its own, any time
     do
     :: atomic { sent[i] < DATA && room(i, RESERVE) -> post(i, D, sent[i]); sent[i]++; any = 1 }
     :: atomic { requests < ROUNDS && answers[i] == requests -> assert(room(i, 0)); post(i, REQUEST, 0);
                 requests++; any = 1 }
     :: break
     od;
     if
     :: r[i].put != r[i].tail -> r[i].tail = r[i].put; ring_bell(1 - i)
     :: else
     fi;
     if
     :: any
     :: !any && (sent[i] < DATA && room(i, RESERVE) || requests < ROUNDS && answers[i] == requests)
     :: else ->  // nothing to do: sleep
#ifdef BUG_SLEEP
        if
        :: r[1 - i].tail == r[1 - i].got && r[i].head == r[i].reaped -> asleep[i] = 1;
#else
        asleep[i] = 1;
        if
        :: stuck || r[1 - i].tail == r[1 - i].got && r[i].head == r[i].reaped ->
#endif
end:       atomic { token[i] -> token[i] = 0 }
        :: else
        fi;
        asleep[i] = 0
     fi
  od
}

init { atomic { run core(0); run core(1) } }

// When nothing moves any more everything has arrived and come back.
active proctype monitor() {
end: timeout ->
  assert(expected[0] == DATA && expected[1] == DATA);
  assert(answers[0] == ROUNDS && answers[1] == ROUNDS);
  assert(back[0] == r[0].put && back[1] == r[1].put)
}
