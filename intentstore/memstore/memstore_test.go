package memstore_test

import (
	"testing"

	"github.com/latchkey-gateway/latchkey/intentstore/intentstoretest"
	"github.com/latchkey-gateway/latchkey/intentstore/memstore"
)

func TestStore(t *testing.T) {
	t.Parallel()
	intentstoretest.Exercise(t, func(*testing.T) intentstoretest.Full { return memstore.New() })
}
