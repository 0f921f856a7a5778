package feed

import (
	"encoding/binary"
	"math/bits"

	"github.com/google/uuid"
)

// IDHash answers Postgres' uuid_hash_extended(id, 0), as servers on little-endian machines compute
// it: the hash of 16 bytes by lookup3, Bob Jenkins' function in the public domain. XORed over any
// events it tells whether two sets of them are the same, in whatever order.
func IDHash(id uuid.UUID) int64 {
	const start = 0x9e3779b9 + 16 + 3923095
	a := start + binary.LittleEndian.Uint32(id[0:])
	b := start + binary.LittleEndian.Uint32(id[4:])
	c := start + binary.LittleEndian.Uint32(id[8:])
	a, c = (a-c)^bits.RotateLeft32(c, 4), c+b
	b, a = (b-a)^bits.RotateLeft32(a, 6), a+c
	c, b = (c-b)^bits.RotateLeft32(b, 8), b+a
	a, c = (a-c)^bits.RotateLeft32(c, 16), c+b
	b, a = (b-a)^bits.RotateLeft32(a, 19), a+c
	c, b = (c-b)^bits.RotateLeft32(b, 4), b+a
	a += binary.LittleEndian.Uint32(id[12:])
	c = (c ^ b) - bits.RotateLeft32(b, 14)
	a = (a ^ c) - bits.RotateLeft32(c, 11)
	b = (b ^ a) - bits.RotateLeft32(a, 25)
	c = (c ^ b) - bits.RotateLeft32(b, 16)
	a = (a ^ c) - bits.RotateLeft32(c, 4)
	b = (b ^ a) - bits.RotateLeft32(a, 14)
	c = (c ^ b) - bits.RotateLeft32(b, 24)
	return int64(uint64(b)<<32 | uint64(c))
}
