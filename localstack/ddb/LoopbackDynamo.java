import com.amazonaws.services.dynamodbv2.local.main.ServerRunner;
import com.amazonaws.services.dynamodbv2.local.server.DynamoDBProxyServer;
import java.io.IOException;
import java.lang.reflect.Field;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;

/**
 * DynamoDB Local on a free port of 127.0.0.1, for as long as standard input is open.
 *
 * <p>The stock ServerRunner listens on every interface and outlives whoever started it. This one tells its port in one
 * line, "listening PORT", and ends when its standard input does: with the process that holds the other end of the pipe,
 * however that died.
 */
public final class LoopbackDynamo {
  public static void main(String[] args) throws Exception {
    String[] options = {"-inMemory", "-sharedDb", "-disableTelemetry"};
    DynamoDBProxyServer proxy = ServerRunner.createServerFromCommandLineArgs(options);
    Field field = DynamoDBProxyServer.class.getDeclaredField("server");
    field.setAccessible(true);
    ServerConnector connector = (ServerConnector) ((Server) field.get(proxy)).getConnectors()[0];
    connector.setHost("127.0.0.1");
    connector.setPort(0);
    proxy.start();
    System.out.println("listening " + connector.getLocalPort());
    try {
      while (System.in.read() >= 0) {}
    } catch (IOException gone) {
      // The pipe is broken: the same as its end.
    }
    Runtime.getRuntime().halt(0);
  }
}
