package once

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"

	"github.com/latchkey-gateway/latchkey/downstream"
	"github.com/latchkey-gateway/latchkey/intent"
)

// Seal encrypts arguments that may not be stored in clear and are needed again: to execute
// after an approval or once more, or to look up. AES-256-GCM (NIST SP 800-38D) with a random
// nonce in front; the key of the intent is authenticated along, so that one receipt's
// arguments cannot be put into another's.
type Seal struct{ aead cipher.AEAD }

// NewSeal makes a seal of a 32 byte key.
func NewSeal(key []byte) (*Seal, error) {
	if len(key) != 32 {
		return nil, errors.New("a seal key is 32 bytes")
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Seal{aead}, nil
}

func (s *Seal) close(plain []byte, key intent.Key) []byte {
	nonce := make([]byte, s.aead.NonceSize(), s.aead.NonceSize()+len(plain)+s.aead.Overhead())
	rand.Read(nonce)
	return s.aead.Seal(nonce, nonce, plain, key[:])
}

func (s *Seal) open(sealed []byte, key intent.Key) ([]byte, error) {
	if len(sealed) < s.aead.NonceSize() {
		return nil, errors.New("too short")
	}
	n := s.aead.NonceSize()
	return s.aead.Open(nil, sealed[:n], sealed[n:], key[:])
}

// seal returns what a call's row keeps of redacted arguments; nil where nothing needs them
// again or nothing may be kept.
func (e *Engine) seal(t *downstream.Tool, id intent.Identity) []byte {
	if e.Seal == nil || !t.NeedsArgsAgain() {
		return nil
	}
	return e.Seal.close(id.Args.AppendJSON(nil), id.Key)
}

var errNoArgs = errors.New("its arguments were redacted and not kept, or were sealed with another key")

// arguments returns the normalised arguments of a row as they were sent or approved;
// errNoArgs where a redacted one is not to be had any more.
func (e *Engine) arguments(t *downstream.Tool, r *intent.Receipt) (intent.Value, error) {
	if len(r.Sealed) > 0 && e.Seal != nil {
		opened, err := e.Seal.open(r.Sealed, r.Key)
		if err != nil {
			return intent.Value{}, errors.Join(errNoArgs, err)
		}
		return intent.Parse(opened)
	}
	args, err := intent.Parse(r.Args)
	if err != nil {
		return args, err
	}
	for _, p := range t.Rules.Redact {
		if args.At(p).Exists() {
			return args, errNoArgs
		}
	}
	return args, nil
}

// asking returns the arguments for a lookup, which may do without redacted ones.
func (e *Engine) asking(t *downstream.Tool, r *intent.Receipt) (intent.Value, error) {
	args, err := e.arguments(t, r)
	if err != nil && !t.NeedsArgsAgain() {
		return intent.Parse(r.Args)
	}
	return args, err
}
